"""Texts that somebody may have written on purpose: specs, JSON, lines of flags and tables."""

import json

# Of the working folder of the processes that read: importing it, or reading the file, is told.
MODULE, SECRET, SAVED_MODEL = "hostile_module", "secret.txt", "hostile_model"
DEEP = 100_000

SPECS = (
    f"warp|layer('TFSMLayer', filepath='{SAVED_MODEL}', call_endpoint='serving_default')",
    "layer('Lambda', function='print')",
    f"layer('{MODULE}.Layer')",
    "layer('RandomRotation', factor=1e308)",
    f"layer('StringLookup', vocabulary='{SECRET}')",
    f"__import__('{MODULE}')",
    f"folder(data_dir='../{SECRET}')",
    "warp" + "|warp" * 5_000,
    "(" * DEEP + "warp" + ")" * DEEP,
    "small(width=10**9)",
    "small(width=1000000000)",
    "resize_short(size=1000000000)|center_crop",
    "pxk(classes=1000000000, per_class=1000000000)",
    "triplet(margin=nan)",
    "x=1; y",
    "",
    "\0",
)


def function(module, name):
    return {"module": module, "class_name": "function", "config": name, "registered_name": name}


def layer(name, module="keras.layers", **config):
    return {"module": module, "class_name": name, "config": {"name": "called", **config}, "registered_name": None}


def called(part, **arguments):
    """A functional model in which a layer is called with these arguments."""
    images = layer("InputLayer", batch_shape=[None, 4], dtype="float32")
    layers = [
        {**images, "name": "images", "config": {**images["config"], "name": "images"}, "inbound_nodes": []},
        {**part, "name": "called", "inbound_nodes": [{"args": [], "kwargs": arguments}]},
    ]
    graph = {"layers": layers, "input_layers": [["images", 0, 0]], "output_layers": [["images", 0, 0]]}
    return layer("Functional", "keras.src.models.functional", trainable=True, **graph)


ARRAY = {"class_name": "__numpy__", "config": {"value": [[[[0.0, 1, 2]] * 4] * 4], "dtype": "float32"}}
SAVED, GALLERY = function("keras.layers", "TFSMLayer"), function("keras.visualization", "plot_image_gallery")
GALLERY_AS_CLASS = {**layer("plot_image_gallery", "keras.visualization"), "config": {}}
PICTURE = {"path": "../hostile.png", "rows": 1, "cols": 1}
VGG = function("keras.applications.vgg16", "VGG16")
# What Keras makes of these writes, reads or deletes files, or runs a SavedModel, when the layer is called.
CALLED = (
    called(layer("Lambda", function=SAVED), inputs=SAVED_MODEL),
    called(layer("Activation", activation=SAVED), inputs=SAVED_MODEL),
    called(layer("Lambda", function=GALLERY, arguments=PICTURE), inputs=ARRAY),
    called(layer("Lambda", function=GALLERY_AS_CLASS, arguments=PICTURE), inputs=ARRAY),
    called(layer("Activation", activation=function("keras.datasets.mnist", "load_data")), inputs=f"../{SECRET}"),
    called(layer("Lambda", function=VGG, arguments={"weights": f"../{SECRET}"}), inputs=False),
)
# Objects in the words of Keras' files.
OBJECTS = (
    *CALLED,
    SAVED,
    GALLERY,
    GALLERY_AS_CLASS,
    layer("Thing", "keras_nlp.models"),
    {
        "module": "tfdml.backbones",
        "class_name": "Borrowed",
        "registered_name": "tfdml>Borrowed",
        "config": {"package": MODULE, "network": {}, "preprocessing": {}},
    },
    layer("TFSMLayer", filepath=SAVED_MODEL, call_endpoint="serving_default"),
    layer("Lambda", function={"class_name": "__lambda__", "config": {"code": "4wAAAA==", "defaults": None}}),
    layer("Thing", MODULE),
    {"module": "builtins", "class_name": "exec", "registered_name": "exec", "config": f"import {MODULE}"},
    {"module": "os", "class_name": "function", "registered_name": "function", "config": "system"},
)
TEXTS = (
    *SPECS,
    MODULE,
    f"{MODULE}.Thing",
    f"../{SECRET}",
    f"../../{SECRET}",
    f"/proc/self/root/{SECRET}",
    "/dev/zero",
    "/dev/stdin",
    "file:///etc/hostname",
    "tfdml>Single",
    "Lambda",
    "TFSMLayer",
    "keras.src.layers",
    "é" * 100_000,
    "\ud800",
    "a\nb",
)
NUMBERS = (0, -1, 1, 2**31, 2**63, 2**64, 10**400, 1e308, float("nan"), float("inf"), -0.5, True)


def any_value(random):
    """Returns a value that does not belong where it is put."""
    kind = random.randrange(6)
    if kind == 0:
        return random.choice(NUMBERS)
    if kind < 4:
        return random.choice(TEXTS)
    return random.choice([None, [], {}, [[]], {"a": {}}, [1] * 1000, [None]])


def any_spec(text, random):
    """Returns another spec in place of one, or the spec with one part exchanged."""
    kind = random.randrange(4)
    if kind == 0 or "(" not in text:
        return random.choice(SPECS)
    if kind == 1:
        return f"{text}|{random.choice(SPECS)}"
    name, _, arguments = text.partition("(")
    if kind == 2:
        return f"{random.choice(['layer', 'small', 'folder', 'keras_hub', 'x'])}({arguments}"
    return f"{name}({random.choice(['name', 'path', 'dtype', 'factor'])}={random.choice(TEXTS)!r})"


def change_json(content, random):
    """Changes values, keys or the nesting of a JSON text; one that cannot be parsed is nested deeply."""
    try:
        tree = json.loads(content)
    except ValueError:
        tree = None
    if tree is None or random.randrange(20) == 0:
        return b"[" * DEEP + b"]" * DEEP
    for _ in range(random.choice([1, 1, 1, 2, 5])):
        tree = _changed(tree, random)
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def _changed(tree, random):
    """Returns the tree with one of its nodes changed."""
    wanted = 3 if isinstance(tree, dict) and "class_name" in tree else 8
    if not isinstance(tree, dict | list) or not tree or random.randrange(wanted) == 0:
        return _instead_of(tree, random)
    if isinstance(tree, list):
        place = random.randrange(len(tree))
        return [*tree[:place], _changed(tree[place], random), *tree[place + 1 :]]
    key, kind = random.choice(list(tree)), random.randrange(12)
    if kind == 0:
        return {name: value for name, value in tree.items() if name != key}
    if kind == 1:
        return {**tree, random.choice(["module", "class_name", "registered_name", "config", "x"]): any_value(random)}
    return {**tree, key: _changed(tree[key], random)}


def _instead_of(value, random):
    if isinstance(value, dict) and "class_name" in value and random.randrange(4):
        return random.choice(OBJECTS)
    if isinstance(value, str) and random.randrange(2):
        return any_spec(value, random)
    return any_value(random)


def change_line(content, random):
    """Changes, adds or repeats a line of a text of flags or of a table."""
    lines = content.splitlines(keepends=True)
    line = random.choice(lines) if lines else b""
    name = line.partition(b"=")[0]
    text = random.choice(TEXTS).encode("utf-8", "surrogatepass")
    new = random.choice(
        [
            name + b"=" + text + b"\n",
            line.replace(b",", b"," + text + b",", 1),
            line,
            f"--import_modules={MODULE}\n".encode(),
            f"--flagfile=../{SECRET}\n".encode(),
            b"--undefok=x\n",
            b'"' + line,
            b"\xff\xfe" + line,
            b"\0" * 10 + b"\n",
            b"x" * 10_000_000 + b"\n",
        ]
    )
    place = random.randrange(len(lines) + 1)
    kept = lines[place + random.randrange(2) :]
    return b"".join([*lines[:place], new, *kept])
