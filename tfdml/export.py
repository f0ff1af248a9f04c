"""Exports the model of a run for serving, or a pretrained backbone without training.

python -m tfdml.export --run_dir=runs/quickstart --out=exported/1
python -m tfdml.export --backbone="keras_applications(name='MobileNetV2')" --initial_weights=imagenet --out=pretrained
"""

from absl import flags, logging

from tfdml.console import command
from tfdml.console import flags as tfdml_flags
from tfdml.console.settings import names_with

tfdml_flags.define_run_dir("Directory of the run to export.")
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_string(
    "backbone",
    "",
    "Spec of a pretrained backbone. Without --run_dir, its features are exported. With the run of a head that was "
    "trained on these features, both are exported as one model.",
)
OF_BACKBONE = names_with(is_exported=True)
tfdml_flags.define_training(only=OF_BACKBONE)
flags.DEFINE_string("images", "", "With --backbone and --dims, a folder, pattern or list of images, or a dataset spec.")
flags.DEFINE_string("out", "", "Folder for the SavedModel. It must be empty or not exist.")
flags.DEFINE_bool(
    "tolerant",
    False,
    "Return zeros and valid=False for files that cannot be read. Otherwise, such a file fails the whole batch.",
)
DIMS = (
    "Number of dimensions to keep: the first ones if --loss=nested(...) trained them, otherwise principal components "
    "of the training embeddings, or of --images. 0 keeps all dimensions."
)
flags.DEFINE_integer("dims", 0, DIMS, lower_bound=0)
LITE = "Also write model.tflite for LiteRT, with weights of this type. Its inputs are resized pixels."
flags.DEFINE_enum("lite", "none", ("none", "float32", "float16", "int8"), LITE)
flags.DEFINE_bool("onnx", False, "Also write model.onnx for ONNX Runtime. Its inputs are resized pixels.")
flags.DEFINE_string(
    "data_dir", "", "Folder of the dataset, which --dims may need. If not set, the folder that the run used."
)
tfdml_flags.define_import_modules()
flags.DEFINE_bool(
    "whiten", False, "With --dims, always project to principal components, and scale them to a variance of 1."
)


def main():
    from tfdml.files.checked import new_folder
    from tfdml.serving.exports import import_converter

    values, out = flags.FLAGS, new_folder(flags.FLAGS.out, "the SavedModel", "--out")
    if values.whiten and not values.dims:
        raise ValueError("--whiten needs --dims. Set it to the number of components.")
    if not values.run_dir + values.backbone:
        raise ValueError("Set --run_dir to the directory of a run, --backbone to a pretrained backbone, or both.")
    if values.onnx:
        # Fail before any work is done.
        import_converter()
    # TensorFlow would log how it names and shards the files.
    logging.set_verbosity(logging.WARNING)
    formats = {"tolerant": values.tolerant, "lite": None if values.lite == "none" else values.lite, "onnx": values.onnx}
    _export(values, out, formats)
    source = values.run_dir or values.backbone
    print(f"Exported {source} to {out} (signature serving_default: image_bytes [B] -> embedding [B, D]).")
    index = command.free_path(lambda number: "index" if number == 1 else f"index_{number}")
    command.print_next("tfdml.index", f"--model={out}", *_images(values), f"--out={index}")


def _images(values):
    """Returns flags of tfdml.index for the images of the run or of --images."""
    if not values.run_dir:
        data_dir = [f"--data_dir={values.data_dir}"] if values.data_dir else []
        return [f"--images={values.images or 'photos'}", *data_dir]
    from tfdml.serving.exports import images_of

    return [f"--{name}={value}" for name, value in images_of(values.run_dir, values.data_dir).items() if value]


def _export(values, out, formats):
    from tfdml.serving import exports

    dims = {"dims": values.dims, "whiten": values.whiten}
    settings = tfdml_flags.settings_of([*OF_BACKBONE, "backbone", "import_modules"])
    if not values.backbone:
        command.refuse_unused([*OF_BACKBONE, "images"], "--run_dir exports the trained model")
        changes = command.given("data_dir", "import_modules")
        exports.export_run(values.run_dir, values.which, out, changes=changes, **dims, **formats)
    elif values.run_dir:
        command.refuse_unused(["images", "dims", "data_dir"], "--run_dir with --backbone joins both")
        exports.export_joined(values.run_dir, values.which, settings, out, **formats)
    else:
        command.refuse_unused(["which"], "--backbone exports the pretrained features")
        if bool(values.dims) != bool(values.images):
            raise ValueError(
                "--dims and --images need each other with --backbone, because the components are computed from "
                "images. Set both, or remove both."
            )
        images = {"images": values.images, "data_dir": values.data_dir, **dims}
        exports.export_backbone(settings, out, **images, **formats)


if __name__ == "__main__":
    command.run(main)
