"""Embeds many images into Parquet files: `python -m tfdml.embed --model=exported/1 --images=photos --out=embedded`.

The files have the columns id, path, label and embedding. If the command is interrupted, repeat it to resume. With
--runner, Apache Spark or Apache Beam computes the embeddings; its own options follow --.

python -m tfdml.embed --model=exported/1 --images=photos --out=embedded --runner=spark -- --spark.master=local[2]
"""

from absl import flags, logging

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_string("model", "", "Folder of the exported model, see python -m tfdml.export.")
flags.DEFINE_string(
    "images",
    "",
    "Images to embed: a folder, a pattern such as 'photos/**/*.jpg', a .csv or .parquet file with the column path and "
    "optionally label, a text file with one path per line, or a dataset spec.",
)
flags.DEFINE_string("data_dir", "", "Folder of the dataset, if --images is a dataset spec.")
flags.DEFINE_enum("split", "test", ["train", "test"], "Split of the dataset, if --images is a dataset spec.")
flags.DEFINE_string("out", "", "Folder for the Parquet files.")
flags.DEFINE_integer("shard_rows", 4096, "Number of images in each Parquet file.", lower_bound=1)
flags.DEFINE_enum(
    "dtype",
    "float32",
    ["float32", "float16", "int8"],
    "Type of the stored embeddings. float16 needs 50% of the disk space, and int8 25%.",
)
flags.DEFINE_integer(
    "batch_size",
    None,
    "Number of images that the model embeds at once. If not set, 64 on a GPU and 8 on a CPU.",
    lower_bound=1,
)
flags.DEFINE_string(
    "runner",
    "",
    "spark for Apache Spark, with its properties after --, or a Beam runner such as DirectRunner or FlinkRunner for "
    "Apache Beam, with its options after --. If not set, this process computes the embeddings.",
)
tfdml_flags.define_debug()


def main(others):
    values = flags.FLAGS
    if others and (not values.runner or not others[0].startswith("--")):
        hint = "" if values.runner else "; options after -- need --runner"
        raise ValueError(f"Unexpected argument {others[0]!r}{hint}.")
    for name, what in {
        "model": "an exported model",
        "images": "the images to embed",
        "out": "a folder to write",
    }.items():
        if not values[name].value:
            raise ValueError(f"--{name} is missing. Set it to {what}.")
    command.import_package()
    from tfdml.serving.bulk_embedding import embed_images
    from tfdml.serving.image_list import ImageList

    # TensorFlow would log how it loads the model.
    logging.set_verbosity(logging.WARNING)
    if not ImageList.is_dataset(values.images):
        command.refuse_unused(["data_dir", "split"], "--images reads files from the working directory")
    images = ImageList.of(values.images, data_dir=values.data_dir, split=values.split)
    options = {"shard_rows": values.shard_rows, "dtype": values.dtype, "batch_size": values.batch_size}
    engine = {"runner": values.runner, "options": others}
    shards = embed_images(values.out, images, model=values.model, **options, **engine)
    if shards.bad:
        path, reason = min(shards.bad.items())
        print(
            f"Skipped {len(shards.bad):,} of {len(images):,} images that cannot be read. The first is {path}: {reason}"
        )
        print(f"For the full list, see {values.out}/manifest.json")
    print(f"Embedded {len(shards):,} images in {values.out}.")
    if images.contents is None:
        command.print_next("tfdml.index", f"--embeddings={values.out}", f"--model={values.model}", "--out=index")


if __name__ == "__main__":
    command.run(main, "[-- OPTIONS OF THE RUNNER...]", reads_images=True)
