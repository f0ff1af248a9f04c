"""Exports a model for serving: that of a run, or a pretrained backbone alone, without training.

python -m tfdml.export --run_dir=runs/quickstart --out=exported/1
python -m tfdml.export --backbone="keras_applications(name='MobileNetV2')" --initial_weights=imagenet --out=exported/1
"""

from pathlib import Path

from absl import flags, logging

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

tfdml_flags.define_run_dir("Folder of a run.")
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_string("backbone", "", "Instead of a run: spec of a pretrained backbone, whose features are exported.")
OF_BACKBONE = ["initial_weights", "head", "image_size", "test_transform", "shrink_decoding"]
tfdml_flags.define_training(only=OF_BACKBONE)
flags.DEFINE_string("images", "", "With --backbone and --dims: a folder, pattern or list of images, or a dataset.")
flags.DEFINE_string("out", "", "Folder for the SavedModel; must be empty or not exist.")
flags.DEFINE_bool("tolerant", False, "Return zeros and valid=False for an unreadable file; else it fails its batch.")
flags.DEFINE_integer(
    "dims",
    0,
    "Keep so many dimensions: the first ones, where --loss=nested(...) trained these, else principal components of the "
    "training embeddings, or of --images; 0: all.",
    lower_bound=0,
)
LITE = ("none", "float32", "float16", "int8")
flags.DEFINE_enum("lite", "none", LITE, "Weights of another file, model.tflite, for LiteRT; it takes resized pixels.")
flags.DEFINE_bool("onnx", False, "Also write model.onnx, for ONNX Runtime; it takes resized pixels.")
flags.DEFINE_string("data_dir", "", "Folder of the dataset, which --dims may need; empty: the run's own.")
tfdml_flags.define_import_modules()
flags.DEFINE_bool("whiten", False, "With --dims: project to principal components in any case, all of variance 1.")


def main():
    from tfdml.serving.exported.onnx_file import import_converter

    given, out = flags.FLAGS, Path(flags.FLAGS.out)
    if not given.out:
        raise ValueError("--out is missing: the folder for the SavedModel.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"--out={out} exists and is not empty; give a new folder.")
    if given.whiten and not given.dims:
        raise ValueError("--whiten needs --dims, the number of components.")
    if bool(given.run_dir) == bool(given.backbone):
        received = "both" if given.run_dir else "neither"
        raise ValueError(f"Expected --run_dir, the folder of a run, or --backbone, one alone; received {received}.")
    if given.onnx:
        # Before there is work that would be lost.
        import_converter()
    # TensorFlow logs how it names and shards the files.
    logging.set_verbosity(logging.WARNING)
    lite = None if given.lite == "none" else given.lite
    about = {"tolerant": given.tolerant, "dims": given.dims, "whiten": given.whiten, "lite": lite, "onnx": given.onnx}
    (_export_backbone if given.backbone else _export_run)(given, out, about)
    print(f"Exported {given.run_dir or given.backbone} to {out}: serving_default(image_bytes [B]) -> embedding [B, D].")


def _export_run(given, out, about):
    from tfdml.serving.exported.run_export import export_run

    command.refuse_unused([*OF_BACKBONE, "images"], "--run_dir exports what the run has trained")
    export_run(given.run_dir, given.which, out, changes=command.given("data_dir", "import_modules"), **about)


def _export_backbone(given, out, about):
    from tfdml.serving.exported.backbone_export import export_backbone

    command.refuse_unused(["which"], "--backbone exports its features")
    if bool(given.dims) != bool(given.images):
        raise ValueError("--dims and --images belong together: the components are those of the images' features.")
    settings = tfdml_flags.settings_of([*OF_BACKBONE, "backbone", "import_modules"])
    export_backbone(settings, out, images=given.images, data_dir=given.data_dir, **about)


if __name__ == "__main__":
    command.run(main)
