"""Packs a dataset into shards: large tar files, which can be stored on any file system that TensorFlow reads.

For example, `python -m pipelines.pack --dataset=sop --data_dir=data --out=packed/sop`. To train on the shards, pass
`--dataset=packed --data_dir=packed/sop`. The batches are bit-for-bit identical. If the command was interrupted, repeat
it to continue.
"""

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags
from tfdml.console.progress_bar import ProgressBar

tfdml_flags.define_debug()
flags.DEFINE_string("dataset", "", "Dataset spec, as in training.")
flags.DEFINE_string("data_dir", "", "Folder of the dataset, as in training.")
flags.DEFINE_string("ignore_images", "", "List of images to skip, as written by pipelines.check.")
flags.DEFINE_string("out", "", "New folder for the shards.")
flags.DEFINE_integer("shard_images", 8192, "Number of images per shard.", lower_bound=1)
flags.DEFINE_list("import_modules", [], "Your own modules to import first, such as one that registers a dataset.")


def main():
    from pipelines.datasets.loading import load
    from pipelines.packing import pack
    from tfdml import registry

    settings = flags.FLAGS
    for name in ("dataset", "out"):
        if not settings[name].value:
            raise ValueError(f"--{name} is missing. Pass --dataset, the dataset to pack, and --out, a new folder.")
    registry.import_modules(settings.import_modules)
    about = {"data_dir": settings.data_dir, "ignore_images": settings.ignore_images}
    # Datasets without training images can be packed as well.
    dataset = load(settings.dataset, **about, test_only=True)
    images = sum(map(len, dataset.splits().values()))
    bar = ProgressBar(images, "image")
    pack(dataset, settings.out, settings.shard_images, bar.add)
    print(f"Packed {images:,} images into {settings.out}.")


if __name__ == "__main__":
    command.run(main)
