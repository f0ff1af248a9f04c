"""A model's file that names what would run code, read, write or delete files is refused before anything runs."""

import inspect
import json
import sys
import zipfile

import keras
import numpy as np
import pytest

import tfdml
from tests.fuzz.hostile_texts import ARRAY, called, function, layer
from tests.fuzz.watched import write_saved_model
from tfdml.backbones import Small
from tfdml.run.directory import model_archive, model_files


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    """The content of a model's file, by name."""
    path = tmp_path_factory.mktemp("models") / "model.keras"
    model = tfdml.Single(Small(width=4, stages=1), embedding_size=4)
    model(np.zeros((1, 16, 16, 3), np.float32))
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def file_of(members, tmp_path):
    """Returns a function that writes a model's file with another configuration."""

    def write(config, name="hostile.keras"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member, content in {**members, "config.json": json.dumps(config)}.items():
                archive.writestr(member, content)
        return tmp_path / name

    return write


def lambda_of(module, name, **arguments):
    return layer("Lambda", function=function(module, name), arguments=arguments, output_shape=[1])


def refused(file, name):
    with pytest.raises(ValueError) as told:
        tfdml.load(file)
    said = str(told.value)
    assert said.startswith(f"{file} cannot be loaded: it names '{name}' as ") and "tfdml does not load" in said
    assert "\n" not in said


@pytest.mark.parametrize("by", ["Lambda", "Activation"])
def test_no_saved_model_is_run(file_of, tmp_path, by):
    mark, program = tmp_path / "ran", str(tmp_path / "program")
    write_saved_model(program, mark)
    layers = {"Lambda": lambda_of("keras.layers", "TFSMLayer")}
    layers["Activation"] = layer("Activation", activation=function("keras.layers", "TFSMLayer"))
    refused(
        file_of(called(layers[by], inputs=program)),
        "keras.layers.TFSMLayer" if by == "Activation" else "keras.layers.Lambda",
    )
    assert not mark.exists()


@pytest.mark.parametrize("kind", ["function", "class"])
def test_no_file_is_written(file_of, tmp_path, kind):
    where = {"path": str(tmp_path / "written.png"), "rows": 1, "cols": 1}
    part = lambda_of("keras.visualization", "plot_image_gallery", **where)
    if kind == "class":
        part["config"]["function"] = {**layer("plot_image_gallery", "keras.visualization"), "config": {}}
    refused(file_of(called(part, inputs=ARRAY)), "keras.layers.Lambda")
    assert not (tmp_path / "written.png").exists()


@pytest.mark.parametrize("by", ["Lambda", "Activation"])
def test_no_dataset_is_fetched_or_deleted(file_of, monkeypatch, by):
    asked = []
    monkeypatch.setattr(
        sys.modules[keras.datasets.mnist.load_data.__module__], "get_file", lambda *a, **b: asked.append(a)
    )
    layers = {"Lambda": lambda_of("keras.datasets.mnist", "load_data")}
    layers["Activation"] = layer("Activation", activation=function("keras.datasets.mnist", "load_data"))
    name = "keras.layers.Lambda" if by == "Lambda" else "keras.datasets.mnist.load_data"
    refused(file_of(called(layers[by], inputs="victim.npz")), name)
    assert not asked


def test_no_file_of_weights_is_read(file_of, monkeypatch):
    asked, vgg = [], sys.modules[keras.applications.VGG16.__module__]
    monkeypatch.setattr(vgg.file_utils, "exists", lambda path: bool(asked.append(path)))
    part = lambda_of("keras.applications.vgg16", "VGG16", weights="secret.h5")
    refused(file_of(called(part, inputs=False)), "keras.layers.Lambda")
    assert not asked


@pytest.mark.parametrize("package", ["keras_nlp", "keras_cv", "keras_hub"])
def test_no_module_of_the_working_folder_is_imported(file_of, tmp_path, monkeypatch, package):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, package, raising=False)
    (tmp_path / f"{package}.py").write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\n")
    refused(file_of(called(layer("Y", f"{package}.x"), inputs=1)), f"{package}.x.Y")
    assert package not in sys.modules and not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "part",
    [
        layer("TFSMLayer", "keras.src.export.tfsm_layer", filepath="x"),
        layer("JaxLayer", call_fn="x"),
        layer("TorchModuleWrapper"),
        layer("load_model", "keras.saving"),
        layer("plot_image_gallery", "keras.visualization"),
        function("keras.visualization", "plot_image_gallery"),
        function("keras.layers", "TFSMLayer"),
        layer("Dense", "keras.src.no_such_module"),
        layer("Map", "keras.src.ops.core"),
        layer("KerasFileEditor", "keras.saving"),
        function("builtins", "deserialize"),
        function("builtins", "exec"),
        function("keras.losses", "get"),
        function("keras.ops", "map"),
        function("keras.layers", "tfdml>Single"),
        {"class_name": "__lambda__", "config": {"code": "4wAAAA==", "defaults": None}},
        {"class_name": "__typespec__", "spec_name": "x", "module": "builtins", "registered_name": None, "config": []},
        {"class_name": "Dense", "config": {"units": 1}},
        {"class_name": ["Dense"], "module": "keras.layers", "config": {}},
        {"class_name": "Dense", "module": ["keras.layers"], "config": {}},
        {"class_name": "function", "module": "keras.activations", "config": {"class_name": "x"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("place", ["layer", "argument", "compiled"])
def test_what_is_not_made_is_refused_wherever_it_stands(part, place):
    nested = called(layer("Dense", units=1), inputs=[{"a": part}])
    if place == "layer":
        nested = called(part)
    if place == "compiled":
        nested = {**called(layer("Dense", units=1)), "compile_config": {"loss": part}}
    with pytest.raises(ValueError, match="^it names .* as a .*, which tfdml does not load from files"):
        model_files.check_config(layer("Sequential", "keras", layers=[nested]))


def test_what_is_neither_of_keras_nor_registered_is_named():
    with pytest.raises(ValueError, match="^it names 'my_parts.Mine', which is not registered. Import the module"):
        model_files.check_config(layer("Mine", "my_parts"))


def test_every_operation_that_calls_what_it_is_given_is_known():
    core = sys.modules[type(keras.ops.cast(keras.KerasTensor((1,)), "int32")._keras_history.operation).__module__]
    calls = {"f", "function", "cond", "body", "body_fun", "true_fn", "branches"}
    found = [
        name
        for name, each in vars(core).items()
        if isinstance(each, type)
        and issubclass(each, keras.Operation)
        and calls & {*inspect.signature(each.__init__).parameters, *inspect.signature(each.call).parameters}
    ]
    assert sorted(found) == sorted(model_files.CALLING) and core.__name__ == "keras.src.ops.core"


def test_the_functions_that_are_made_take_tensors():
    """A new release of Keras may put others beside them."""
    for module in model_files.FUNCTIONS:
        for name, each in vars(sys.modules[module]).items():
            if inspect.isfunction(each) and name not in model_files.MAKING:
                assert next(iter(inspect.signature(each).parameters)) in ("x", "y_true"), f"{module}.{name}"


@keras.saving.register_keras_serializable(package="tests")
def my_activation(x):
    return 2 * x


@keras.saving.register_keras_serializable(package="tests")
class MyBackbone(keras.layers.Layer):
    def __init__(self, part, **kwargs):
        super().__init__(**kwargs)
        self.part = part

    def get_config(self):
        return {**super().get_config(), "part": keras.saving.serialize_keras_object(self.part)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "part": keras.saving.deserialize_keras_object(config["part"])})

    def call(self, inputs):
        return self.part(inputs)


def test_models_of_keras_and_of_the_user_are_loaded(tmp_path):
    x = keras.Input((8, 8, 3))
    y = keras.layers.Conv2D(
        4, 3, kernel_regularizer=keras.regularizers.L2(0.1), kernel_constraint="max_norm", dtype="mixed_float16"
    )(x)
    y = keras.layers.Dropout(0.5, seed=1)(keras.layers.Activation(my_activation)(y))
    y = keras.ops.mean(keras.activations.gelu(y[:, ::2, ..., :3] + 1.0), axis=(1, 2))
    y = keras.ops.concatenate([keras.layers.Dense(2, activation=keras.activations.softmax)(y), keras.ops.relu(y)], 1)
    y = keras.layers.LayerNormalization()(keras.ops.matmul(y, np.ones((5, 3), np.float32)))
    inner = keras.Model(x, MyBackbone(keras.Sequential([keras.layers.Dense(2, activation="relu")]))(y))
    schedule = keras.optimizers.schedules.CosineDecay(0.1, 10)
    inner.compile(keras.optimizers.Adam(schedule), keras.losses.mean_squared_error, [keras.metrics.MeanSquaredError()])
    outer = keras.Sequential([x, inner])
    # Keras makes no function of a lambda again, and leaves this one out.
    outer.compile("sgd", lambda truth, found: found)
    outer.save(tmp_path / "model.keras")
    images = np.random.default_rng(0).random((2, 8, 8, 3), np.float32)
    np.testing.assert_array_equal(model_archive.load_archive(tmp_path / "model.keras")(images), outer(images))


def test_an_archive_that_is_also_of_the_older_format_is_not_read_as_one(members, tmp_path):
    path = tmp_path / "model.h5"
    keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)]).save(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("config.json", members["config.json"])
    with pytest.raises(ValueError, match=f"^{path} is not a .keras file"):
        tfdml.load(path)
    # The name alone decides, also of a file that does not look like weights by its name.
    for other in ("model", "model.hdf5"):
        renamed = path.rename(tmp_path / other)
        with pytest.raises(ValueError, match=f"^{renamed} cannot be loaded: the name of a model file must end in .k"):
            tfdml.load(renamed)
        path = renamed


def test_an_error_of_tensorflow_names_the_file(file_of):
    wrong = {"class_name": "__numpy__", "config": {"value": [[1.0, 2.0, 3.0]], "dtype": "float32"}}
    more = {"class_name": "__numpy__", "config": {"value": [[1.0, 2.0]], "dtype": "float32"}}
    file = file_of(called(layer("Matmul", "keras.src.ops.numpy"), x1=wrong, x2=more))
    with pytest.raises(ValueError, match=f"^{file} cannot be loaded: "):
        tfdml.load(file)
