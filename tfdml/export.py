"""Exports a trained model for serving: `python -m tfdml.export --run_dir=runs/quickstart --out=exported/1`."""

from pathlib import Path

from absl import flags, logging

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

tfdml_flags.define_run_dir("Folder of a run.")
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_string("out", "", "Folder for the SavedModel; must be empty or not exist.")
flags.DEFINE_bool(
    "tolerant",
    False,
    "Return zeros for files that cannot be read, and another output `valid`; by default one of them is an error of the "
    "whole batch.",
)
flags.DEFINE_integer(
    "dims",
    0,
    "Keep so many dimensions: the first ones, where --loss=nested(...) trained these, else principal components of the "
    "training embeddings; 0: all.",
    lower_bound=0,
)
flags.DEFINE_enum(
    "lite",
    "none",
    ["none", "float32", "float16", "int8"],
    "Also write model.tflite, for LiteRT, with weights of this precision; it takes decoded and resized pixels.",
)
flags.DEFINE_bool("onnx", False, "Also write model.onnx, for ONNX Runtime; it takes decoded and resized pixels.")
flags.DEFINE_string(
    "data_dir", "", "Folder of the dataset, which --dims may need, if it has moved; empty: the run's own."
)
flags.DEFINE_list("import_modules", [], "Your own modules to import; those of a run are only if they are named here.")
flags.DEFINE_bool(
    "whiten", False, "With --dims: project to principal components in any case, and give them all the same variance."
)


def main():
    from tfdml.serving.exported.onnx_file import import_converter
    from tfdml.serving.exported.run_export import export_run

    given, out = flags.FLAGS, Path(flags.FLAGS.out)
    if not given.out:
        raise ValueError("--out is missing: the folder for the SavedModel.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"--out={out} exists and is not empty; give a new folder.")
    if given.whiten and not given.dims:
        raise ValueError("--whiten needs --dims, the number of components.")
    if given.onnx:
        # Before there is work that would be lost.
        import_converter()
    # TensorFlow logs how it names and shards the files.
    logging.set_verbosity(logging.WARNING)
    lite = None if given.lite == "none" else given.lite
    about = {"tolerant": given.tolerant, "dims": given.dims, "whiten": given.whiten, "lite": lite, "onnx": given.onnx}
    about["changes"] = command.given("data_dir", "import_modules")
    export_run(given.run_dir, given.which, out, **about)
    print(f"Exported {given.run_dir} to {out}: serving_default(image_bytes [B]) -> embedding [B, D].")


if __name__ == "__main__":
    command.run(main)
