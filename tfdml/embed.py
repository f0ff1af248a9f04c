"""Embeds many images into Parquet files: `python -m tfdml.embed --model=exported/1 --images=photos --out=embedded`.

The files have the columns id, path, label and embedding. An interrupted command goes on where it stopped when it is
repeated. With --runner, Apache Spark or Apache Beam embeds; its options follow --.

python -m tfdml.embed --model=exported/1 --images=photos --out=embedded --runner=spark -- --spark.master=local[2]
"""

from absl import flags, logging

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_string("model", "", "Folder of an exported model, see python -m tfdml.export.")
flags.DEFINE_string(
    "images",
    "",
    "A folder, a pattern such as 'photos/**/*.jpg', a .csv or .parquet file with the column path and perhaps label, a "
    "text file with a path in each line, or the spec of a dataset.",
)
flags.DEFINE_string("data_dir", "", "Folder of a dataset.")
flags.DEFINE_enum("split", "test", ["train", "test"], "Split of a dataset.")
flags.DEFINE_string("out", "", "Folder to write.")
flags.DEFINE_integer("shard_rows", 4096, "Number of images in each Parquet file.", lower_bound=1)
flags.DEFINE_integer(
    "batch_size",
    None,
    "Number of images that the model embeds at once. Default: 64 on a GPU, 8 without.",
    lower_bound=1,
)
flags.DEFINE_string(
    "runner",
    "",
    "spark: Apache Spark, with its properties behind --. DirectRunner, FlinkRunner or another: Apache Beam, with its "
    "options. Empty: this process embeds.",
)
tfdml_flags.define_debug()


def main(others):
    values = flags.FLAGS
    if others and (not values.runner or not others[0].startswith("--")):
        hint = "" if values.runner else "; options behind -- need --runner"
        raise ValueError(f"Unexpected argument {others[0]!r}{hint}.")
    for name, what in {"model": "an exported model", "images": "the images", "out": "the folder to write"}.items():
        if not values[name].value:
            raise ValueError(f"--{name} is missing: {what}.")
    command.import_package()
    from tfdml.serving.bulk_embedding import embed_images
    from tfdml.serving.image_list import ImageList

    # TensorFlow logs how it reads the model.
    logging.set_verbosity(logging.WARNING)
    if not ImageList.is_dataset(values.images):
        command.refuse_unused(["data_dir", "split"], "--images reads files from the working folder")
    images = ImageList.of(values.images, data_dir=values.data_dir, split=values.split)
    options = {"shard_rows": values.shard_rows, "batch_size": values.batch_size}
    engine = {"runner": values.runner, "options": others}
    shards = embed_images(values.out, images, model=values.model, **options, **engine)
    if shards.bad:
        path, reason = min(shards.bad.items())
        print(f"{len(shards.bad):,} of {len(images):,} images cannot be read and are left out, first {path}: {reason}")
        print(f"All are listed in {values.out}/manifest.json")
    print(f"Embedded {len(shards):,} images in {values.out}.")


if __name__ == "__main__":
    command.run(main, "[-- OPTIONS OF THE RUNNER...]", reads_images=True)
