"""All flags of the commands. Only commands read them."""

import functools
import types

from absl import flags

from tfdml.console.path_parser import PathParser

KINDS = ("bool", "enum", "float", "integer", "list", "string")


def define_training(values=flags.FLAGS):
    """Defines the flags that describe a training run on an absl `FlagValues`, and returns their names."""
    before = set(values)
    for define in TOPICS.values():
        define(_definer(values))
    return sorted(set(values) - before)


def topics():
    """Returns `{topic: names of flags}` of training."""
    found = {}
    for topic, define in TOPICS.items():
        values = flags.FlagValues()
        define(_definer(values))
        found[topic] = list(values)
    return found


def _definer(values):
    """Returns absl's functions that define flags, bound to `values`: `.string(name, default, help)` and so on."""
    define = {kind: functools.partial(getattr(flags, f"DEFINE_{kind}"), flag_values=values) for kind in KINDS}
    define["validator"] = functools.partial(flags.register_validator, flag_values=values)
    return types.SimpleNamespace(**define, path=functools.partial(_path, values))


def _path(values, name, help_text):
    flags.DEFINE(PathParser(), name, "", help_text, values, serializer=flags.ArgumentSerializer())


def _data(define):
    define.string("dataset", "toycars", "Dataset spec: toycars(...), folder, ...; tfdml.train --list shows all.")
    define.path("data_dir", "Folder of the dataset; empty: the dataset's default, if it has one.")
    define.path("ignore_images", "File that lists images to leave out, from python -m pipelines.check; empty: none.")


def _images(define):
    define.integer("image_size", 0, "Side of the network's square input images in pixels; 0: the backbone's own.", 0)
    define.validator("image_size", lambda size: size == 0 or 8 <= size <= 4096, "Expected 0, or 8 to 4096.")
    define.string(
        "train_transform", "random_resized_crop(area=(0.5, 1.0))|flip", "Chain of transforms for training images."
    )
    define.string("test_transform", "resize_short|center_crop", "Chain of transforms for evaluation and serving.")
    define.enum(
        "cache",
        "none",
        ["none", "bytes", "pixels"],
        "What to cache of each image: nothing, its file, or its pixels after the first steps of the transform that do "
        "the same every time. Results are the same.",
    )
    define.float("cache_memory", 4.0, "Memory for --cache in GiB; a split that does not fit goes to --cache_dir.", 0.0)
    define.path("cache_dir", "Folder for --cache, best on a local disk; empty: ~/.cache/tfdml.")
    define.bool(
        "shrink_decoding",
        False,
        "Decode a JPEG at 1/2, 1/4 or 1/8 of its size if it is resized to that or less. Faster, with slightly "
        "different pixels, in training, evaluation and export alike.",
    )
    define.integer(
        "max_bad_images",
        0,
        "Number of unreadable training images that are replaced by others of their class; one more stops the run. 0: "
        "the first one stops it. Each of several workers counts its own.",
        0,
    )


def _network(define):
    define.string("backbone", "small", "Backbone spec, such as small(width=24).")
    define.string(
        "initial_weights",
        "",
        "Initial weights of the backbone: a Keras weights file (.weights.h5); imagenet: the backbone's own download; "
        "toycars: included weights of small(width=16). Empty: random weights.",
    )
    define.string("method", "single", "Method spec: how images become learner embeddings.")
    define.string("head", "linear", "Head spec: the layers before the linear layer, such as linear(pooling='gem').")
    define.integer("embedding_size", 128, "Dimensions of the embedding.", lower_bound=1)
    define.enum(
        "precision",
        "float32",
        ["float32", "mixed_bfloat16", "mixed_float16"],
        "Precision of the network; losses are always float32.",
    )


def _loss(define):
    define.string("loss", "triplet", "Loss spec, such as triplet(margin=0.2, mining='semi_hard').")
    define.string("memory", "", "Memory spec, such as xbm(size=8192, start=1000): compare batches with past ones, too.")
    define.string("sampler", "pxk(classes=32, per_class=4)", "Sampler spec; determines the batch size.")
    define.integer("meta_classes", 0, "Number of random meta-classes to train on instead of the classes; 0: none.", 0)
    define.enum("meta_classes_of", "classes", ["classes", "images"], "What --meta_classes merges at random.")


def _optimization(define):
    define.string("optimizer", "auto", "Optimizer spec; auto: adam, at a rate of 1e-4 if pretrained, of 1e-3 if not.")
    define.string(
        "schedule",
        "constant",
        "Learning rate schedule spec, in epochs: constant, step(at=(10, 15)), cosine(warmup_epochs=1), ...",
    )
    define.list(
        "lr_multipliers",
        [],
        "Learning rate multipliers by layer group, such as embedding=10,loss=100. A group is backbone, embedding, "
        "loss, or a layer name, in which '*' matches anything. 0 freezes; of several groups the last applies.",
    )
    define.float("warmup_epochs", 0.0, "Number of first epochs in which the backbone is frozen; 0: none.", 0.0)
    define.enum(
        "freeze_batch_norm",
        "auto",
        ["auto", "none", "statistics", "all"],
        "Freeze in the backbone's batch norm: nothing, statistics, or all; auto: statistics if they are pretrained.",
    )
    define.bool("decay_biases_and_norms", True, "Whether the optimizer's weight_decay applies to biases and norms.")
    define.float("clip_norm", 0.0, "Maximum norm of the gradient of all weights; 0: no limit.", 0.0)
    define.float(
        "ema",
        0.0,
        "Decay, such as 0.999, of a moving average of the weights, which is evaluated and saved instead; 0: none.",
        0.0,
        0.999999,
    )


def _length(define):
    define.integer("epochs", 0, "Number of epochs; 0: --steps decides.", lower_bound=0)
    define.integer("steps", 0, "Number of steps, in place of --epochs; 0 for both: 2000 steps.", lower_bound=0)
    define.integer("steps_per_epoch", 0, "Steps in an epoch; 0: training images divided by the batch size.", 0)
    define.integer(
        "patience",
        -1,
        "Stop after so many evaluations without improvement; 0: never; -1: 5 with --evaluate_on=validation, or never.",
        lower_bound=-1,
    )


def _evaluation(define):
    define.enum(
        "evaluate_on",
        "test",
        ["test", "validation"],
        "Split that is evaluated while training and selects the best model. 'test' is what papers do, and result.json "
        "says so; 'validation' holds out training classes.",
    )
    define.float(
        "validation_classes",
        0.2,
        "Fraction of the training classes that --evaluate_on=validation holds out, 0 to 1.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    define.integer("folds", 0, "Number of folds of the training classes; 0: hold out --validation_classes.", 0)
    define.integer("fold", 0, "The fold of --folds to hold out, counted from 0.", lower_bound=0)
    define.integer("validation_seed", -1, "Seed of the choice of validation classes; -1: --seed.", -1, 2**31 - 1)
    define.string(
        "protocol",
        "",
        "Protocol spec, such as query_gallery(distance='euclidean'); empty: the dataset's own.",
    )
    define.list("metrics", [], "Metrics, such as recall_at_1,map_at_r,nmi; empty: the protocol's own.")
    define.string(
        "select_by", "", "Metric that selects the best model, such as map_at_r; empty: the first of the protocol."
    )
    define.integer(
        "eval_every", 0, "Evaluate every N --eval_unit; 0: every epoch of --epochs, or ten times in --steps.", 0
    )
    define.enum("eval_unit", "epochs", ["epochs", "steps"], "Unit of --eval_every.")
    define.integer("eval_batch_size", 128, "Batch size of evaluation.", lower_bound=1)
    define.bool("projector", True, "Write the test embeddings for TensorBoard's projector at the end.")


def _running(define):
    define.integer("seed", 0, "Seed of weights, batches, augmentation and dropout.", 0, 2**31 - 1)
    define.integer("members", 0, "Number of members of an ensemble, each a run of its own; 0: an ordinary run.", 0)
    define.string(
        "devices",
        "auto",
        "auto: all GPUs, or the CPU; cpu:N: N virtual CPUs; gpu:N: the first N GPUs; workers: several machines, from "
        "TF_CONFIG.",
    )
    define.bool("deterministic", True, "Use operations that give the same bits every time.")
    define.integer("pieces", 1, "Embed batches in so many pieces, one after another: less memory, more time.", 1)
    define.bool("jit_compile", False, "Compile the step with XLA; one device only, not with --deterministic.")
    define.integer("checkpoint_every", 0, "Also save a checkpoint every N steps; 0: only at the end of epochs.", 0)
    define.integer("keep_checkpoints", 3, "Number of checkpoints to keep.", lower_bound=1)
    define.list("import_modules", [], "Your own modules to import first, which may register losses and other parts.")


# The headings of --help.
TOPICS = {
    "Data": _data,
    "Images": _images,
    "Network": _network,
    "Loss and batches": _loss,
    "Optimization": _optimization,
    "Length": _length,
    "Evaluation": _evaluation,
    "Run": _running,
}


def define_run_dir(help_text, values=flags.FLAGS):
    flags.DEFINE_string("run_dir", "", help_text, flag_values=values)


def define_which():
    flags.DEFINE_enum("which", "best", ["best", "final"], "Which model of the run to use.")


def define_debug():
    flags.DEFINE_bool("debug", False, "Show the traceback of an error.")


def settings_of(names, values=flags.FLAGS):
    """Returns the values of the named flags as a namespace. Everything but commands sees only this."""
    return types.SimpleNamespace(**{name: values[name].value for name in names})


def serialize(names, values=flags.FLAGS):
    """Returns `{name: "--name=value"}` of the named flags."""
    return {name: values[name].serialize() or f"--{name}=" for name in names}


def resolve(arguments):
    """Parses command line arguments of training; returns `{name: "--name=value"}`."""
    values = flags.FlagValues()
    names = define_training(values)
    define_run_dir("", values)
    values(["train", *arguments])
    return serialize(names, values)


def parse(text):
    """Parses a saved flags file; returns `(settings, {name: "--name=value"})`."""
    values = flags.FlagValues()
    names = define_training(values)
    values(["flags.txt", *text.splitlines()])
    return settings_of(names, values), serialize(names, values)
