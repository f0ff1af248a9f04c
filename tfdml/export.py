"""Exports a model for serving: of a run, of a pretrained backbone alone, or of a run on its features, with both.

python -m tfdml.export --run_dir=runs/quickstart --out=exported/1
python -m tfdml.export --backbone="keras_applications(name='MobileNetV2')" --initial_weights=imagenet --out=exported/1
"""

from absl import flags, logging

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

tfdml_flags.define_run_dir("Folder of a run.")
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_string("backbone", "", "Spec of a pretrained backbone: its features are exported, or join a run on them.")
OF_BACKBONE = ["initial_weights", "head", "image_size", "test_transform", "shrink_decoding"]
tfdml_flags.define_training(only=OF_BACKBONE)
flags.DEFINE_string("images", "", "With --backbone and --dims: a folder, pattern or list of images, or a dataset.")
flags.DEFINE_string("out", "", "Folder for the SavedModel; must be empty or not exist.")
flags.DEFINE_bool("tolerant", False, "Return zeros and valid=False for an unreadable file; else it fails its batch.")
DIMS = (
    "Keep so many dimensions: the first ones, where --loss=nested(...) trained these, else principal components of the "
    "training embeddings, or of --images; 0: all."
)
flags.DEFINE_integer("dims", 0, DIMS, lower_bound=0)
LITE = "Weights of another file, model.tflite, for LiteRT; it takes resized pixels."
flags.DEFINE_enum("lite", "none", ("none", "float32", "float16", "int8"), LITE)
flags.DEFINE_bool("onnx", False, "Also write model.onnx, for ONNX Runtime; it takes resized pixels.")
flags.DEFINE_string("data_dir", "", "Folder of the dataset, which --dims may need; empty: the run's own.")
tfdml_flags.define_import_modules()
flags.DEFINE_bool("whiten", False, "With --dims: project to principal components in any case, all of variance 1.")


def main():
    from tfdml.serving.exported.onnx_file import import_converter

    given, out = flags.FLAGS, command.new_folder(flags.FLAGS.out, "the SavedModel")
    if given.whiten and not given.dims:
        raise ValueError("--whiten needs --dims, the number of components.")
    if not given.run_dir + given.backbone:
        raise ValueError("Expected --run_dir, the folder of a run, or --backbone, or both; received neither.")
    if given.onnx:
        # Before there is work that would be lost.
        import_converter()
    # TensorFlow logs how it names and shards the files.
    logging.set_verbosity(logging.WARNING)
    formats = {"tolerant": given.tolerant, "lite": None if given.lite == "none" else given.lite, "onnx": given.onnx}
    _export(given, out, formats)
    print(f"Exported {given.run_dir or given.backbone} to {out}: serving_default(image_bytes [B]) -> embedding [B, D].")
    index = command.free_path(lambda number: "index" if number == 1 else f"index_{number}", 1)
    command.print_next("tfdml.index", f"--model={out}", *_images(given), f"--out={index}")


def _images(given):
    """Returns the flags of tfdml.index that name images: those of the run, or of --images."""
    if not given.run_dir:
        return [f"--images={given.images or 'photos'}", *([f"--data_dir={given.data_dir}"] if given.data_dir else [])]
    from tfdml.serving.exported.run_export import images_of

    return [f"--{name}={value}" for name, value in images_of(given.run_dir, given.data_dir).items() if value]


def _export(given, out, formats):
    from tfdml.serving.exported import backbone_export, joined_export, run_export

    dims = {"dims": given.dims, "whiten": given.whiten}
    settings = tfdml_flags.settings_of([*OF_BACKBONE, "backbone", "import_modules"])
    if not given.backbone:
        command.refuse_unused([*OF_BACKBONE, "images"], "--run_dir exports what the run has trained")
        changes = command.given("data_dir", "import_modules")
        run_export.export_run(given.run_dir, given.which, out, changes=changes, **dims, **formats)
    elif given.run_dir:
        command.refuse_unused(["images", "dims", "data_dir"], "--run_dir with --backbone joins both")
        joined_export.export_joined(given.run_dir, given.which, settings, out, **formats)
    else:
        command.refuse_unused(["which"], "--backbone exports its features")
        if bool(given.dims) != bool(given.images):
            raise ValueError("--dims and --images belong together: the components are those of the images' features.")
        images = {"images": given.images, "data_dir": given.data_dir, **dims}
        backbone_export.export_backbone(settings, out, **images, **formats)


if __name__ == "__main__":
    command.run(main)
