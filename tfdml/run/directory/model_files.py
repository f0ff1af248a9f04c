"""Models and weights on disk: which classes their files may name, and errors with the name of the file."""

import sys
import warnings
from pathlib import Path

import keras
from keras import ops

from tfdml.backbones.borrowed import INSTALL, Borrowed, import_extra
from tfdml.backbones.published_weights import advice
from tfdml.backbones.weights import adapted_layers, load_by_name, save_adapter
from tfdml.files.checked import flush, open_file, vacated
from tfdml.runtime.keras_internals import not_compiled

# Keras' class names for plain values, for which it looks nothing up.
VALUES = ("__keras_tensor__", "__tensor__", "__numpy__", "__bytes__", "__ellipsis__", "__slice__")
# Layers and models are operations.
KINDS = (
    keras.Operation,
    keras.Initializer,
    keras.Regularizer,
    keras.constraints.Constraint,
    keras.Optimizer,
    keras.optimizers.schedules.LearningRateSchedule,
    keras.Loss,
    keras.Metric,
    keras.DTypePolicy,
    keras.Quantizer,
    keras.random.SeedGenerator,
)
RUN_CODE = (
    keras.layers.Lambda,
    keras.layers.TFSMLayer,
    keras.layers.TorchModuleWrapper,
    keras.layers.JaxLayer,
    keras.layers.FlaxLayer,
)
# Operations that call a function that is passed to them. Keras does not export these classes.
CALLING = ("Map", "Scan", "AssociativeScan", "Switch", "WhileLoop", "ForiLoop", "Cond", "VectorizedMap")
FUNCTIONS = ("keras.activations", "keras.losses", "keras.metrics")
# Functions in the same modules that are not functions of tensors.
MAKING = ("get", "deserialize", "serialize")
# Packages that Keras imports to look up a class.
LOOKED_INTO = ("keras", "keras_nlp", *INSTALL)


def check_config(config):
    """Raises a ValueError if Keras would create anything from a model's configuration that may run code.

    The check imports nothing except the package of a `Borrowed` backbone. The model is not compiled.
    """
    if isinstance(config, dict):
        # Keras ignores the model's own compile_config, which may name unknown functions. Keras uses nested ones.
        config = {key: value for key, value in config.items() if key != "compile_config"}
    # A package that is already imported cannot be a module of the working directory that has its name.
    _check(config, ("keras", *(package for package in INSTALL if package in sys.modules)))


def _check(node, packages):
    """Checks a part of the configuration, which may name classes from `packages`."""
    if isinstance(node, list):
        for each in node:
            _check(each, packages)
    elif isinstance(node, dict):
        thing = _check_named(node, packages) if "class_name" in node else None
        borrowed = isinstance(thing, type) and issubclass(thing, Borrowed)
        for key, value in node.items():
            if borrowed and key == "config":
                _check_borrowed(value, packages)
            else:
                _check(value, packages)


def _check_borrowed(config, packages):
    if not isinstance(config, dict):
        raise ValueError(f"it has a {type(config).__name__} instead of a backbone's configuration")
    package = config.get("package")
    import_extra(package)
    for key, value in config.items():
        _check(value, ("keras", package) if key == "network" else packages)


def _check_named(node, packages):
    """Returns the class or function that an object names, or None for a value. Raises a ValueError if not allowed."""
    kind = node["class_name"]
    if isinstance(kind, str) and kind in VALUES:
        return None
    is_function = kind == "function"
    name = node.get("config") if is_function else kind
    registered, module = name if is_function else node.get("registered_name", name), node.get("module")
    # Keras reads objects without a module with older rules.
    if "module" not in node or not all(isinstance(each, str | None) for each in (name, registered, module)):
        raise _refusal(node, name)
    thing = keras.saving.get_registered_object(registered)
    if thing is None:
        thing = _function(module, name) if is_function else _of_packages(module, name, packages)
    if thing is None and _root(module) not in (*LOOKED_INTO, "builtins"):
        raise ValueError(
            f"it names {_named(node, name)}, which is not registered. Import the module that registers it first"
        )
    computes = callable(thing) and not isinstance(thing, type) and _is_of(thing, packages)
    if not (computes if is_function else _is_made(thing, packages)):
        raise _refusal(node, name)
    return thing


def _refusal(node, name):
    what = "a function" if node["class_name"] == "function" else "a class"
    return ValueError(
        f"it names {_named(node, name)} as {what}, which tfdml does not load from files, because it may run code or "
        "use files"
    )


def _named(node, name):
    return repr(f"{node.get('module')}.{name}"[:100])


def _function(module, name):
    modules = FUNCTIONS if module == "builtins" else [each for each in FUNCTIONS if each == module]
    functions = [vars(sys.modules[each])[name] for each in modules if name in vars(sys.modules[each])]
    return functions[0] if functions and name not in MAKING else None


def _of_packages(module, name, packages):
    # Only loaded modules are searched, because a further search would import a module that the file names.
    loaded = sys.modules.get(module) if _root(module) in packages else None
    return vars(loaded).get(name) if loaded else None


def _is_made(thing, packages):
    if not isinstance(thing, type) or issubclass(thing, RUN_CODE) or not _is_of(thing, packages):
        return False
    # keras-hub's tokenizers read vocabulary files.
    if thing.__module__ == "keras.src.ops.core" and thing.__name__ in CALLING or "Tokenizer" in thing.__name__:
        return False
    return _root(thing.__module__) not in LOOKED_INTO or issubclass(thing, KINDS)


def _is_of(thing, packages):
    """Whether something belongs to these packages, or was registered by tfdml or a user."""
    # A module can contain objects of any kind, so `__module__` may be missing.
    root = _root(getattr(thing, "__module__", None))
    return root in packages or root not in LOOKED_INTO


def _root(module):
    return (module or "").partition(".")[0]


def load_weights(backbone, path):
    """Loads the initial weights of a backbone and returns a line about what was loaded.

    `path` is a `.weights.h5` file, which is loaded by layer names; a keras.applications file; `imagenet`, which the
    backbone downloads; or the name of weights that come with tfdml, such as `toycars` for `small`.
    """
    loaded = _loaded(backbone, path)
    wrong = next((weight.path for weight in backbone.weights if not ops.all(ops.isfinite(weight))), None)
    if wrong is not None:
        raise ValueError(
            f"--initial_weights={path} has NaN or infinite values in {wrong}. Weights must be finite. Use another "
            "file, such as an earlier one of the same model."
        )
    return loaded


def _loaded(backbone, path):
    """Loads weights as `load_weights` does, but without a check of their values."""
    if path == "imagenet":
        if not backbone.downloads_imagenet:
            others = "keras_applications backbones have one. keras_hub and keras_cv presets include their weights."
            how = advice(backbone) or others
            raise ValueError(f"--initial_weights=imagenet: {backbone.name} has no download of ImageNet weights. {how}")
        backbone.load_imagenet()
        return "--initial_weights=imagenet: all parameters loaded."
    file = backbone.shipped_weights.get(path, path)
    if not Path(file).exists():
        names = ", ".join(_names(backbone))
        by_name = f" Names of weights for {backbone.name}: {names}." if names else ""
        message = f"--initial_weights={path} does not exist.{by_name} {advice(backbone)}"
        raise FileNotFoundError(message.strip())
    try:
        open_file(file).close()
        if str(file).endswith(".weights.h5"):
            return f"--initial_weights={path}: {load_by_name(backbone, file)}."
        with warnings.catch_warnings():
            # Keras warns about each layer that does not match before it raises an error, which is enough.
            warnings.simplefilter("ignore")
            backbone.load_weights(file)
    except (ValueError, OSError, KeyError, RuntimeError) as error:
        # h5py raises the last two for damaged files. Keras' message has several lines, which are joined to one.
        reason = " ".join(str(error).split())
        raise ValueError(f"--initial_weights={path} does not match the backbone: {reason}") from None
    return f"--initial_weights={path}: all parameters loaded, by their order."


def ways_to_weights(backbone):
    """Returns a text on what `load_weights` accepts for a backbone."""
    return f"{', or '.join([*_names(backbone), 'a weights file (.weights.h5)'])}. {advice(backbone)}".strip()


def _names(backbone):
    return [*["imagenet"] * backbone.downloads_imagenet, *backbone.shipped_weights]


def save_best(model, run):
    """Saves the best model of a run so far, and LoRA's changes to a separate file."""
    save_model(model, run.model)
    # A custom method may have no backbone.
    if model.backbone is not None and adapted_layers(model.backbone):
        save_adapter(model.backbone, run.adapter)


def load_best(model, run):
    """Loads the weights of the best model of a run, which `save_best` has saved, into a model."""
    # A compiled model would make Keras warn that the file has no optimizer state.
    with not_compiled(model):
        model.load_weights(run.model)


def save_model(model, path):
    """Saves a model without its optimizer, so that `path` contains a complete model at any time.

    The optimizer's state is in the checkpoint that a run resumes from.
    """
    temporary = path.with_name(f".writing-{path.name}")
    try:
        with not_compiled(model):
            model.save(vacated(temporary))
        flush(temporary)
        temporary.rename(path)
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"Cannot write {path}: {reason}. Make room, then run the command again.") from error
