"""Every flag of the command lines, in one place. Only command lines read them."""

import functools
import os
import types

from absl import flags

KINDS = ("bool", "enum", "float", "integer", "list", "string")


class PathParser(flags.ArgumentParser):
    """Makes a path absolute, so that a run's flags mean the same in every working directory.

    What begins with `~`, and addresses such as `gs://bucket`, stay as they are.
    """

    syntactic_help = "a path"

    def parse(self, argument):
        return argument if not argument or argument[0] == "~" or "://" in argument else os.path.abspath(argument)


def define_training(values=flags.FLAGS):
    """Defines the flags that describe a training run on an absl `FlagValues`, and returns their names."""
    before = set(values)
    for define in TOPICS.values():
        define(_definer(values))
    return sorted(set(values) - before)


def topics():
    """`{topic: names of flags}` of training."""
    found = {}
    for topic, define in TOPICS.items():
        values = flags.FlagValues()
        define(_definer(values))
        found[topic] = list(values)
    return found


def _definer(values):
    """absl's functions that define a flag, on a `FlagValues`: `.string(name, default, help)` and so on."""
    define = {kind: functools.partial(getattr(flags, f"DEFINE_{kind}"), flag_values=values) for kind in KINDS}
    define["validator"] = functools.partial(flags.register_validator, flag_values=values)
    return types.SimpleNamespace(**define, path=functools.partial(_path, values))


def _path(values, name, help_text):
    flags.DEFINE(PathParser(), name, "", help_text, values, serializer=flags.ArgumentSerializer())


def _data(define):
    define.string("dataset", "toycars", "Dataset spec: toycars(...), folder, ...; --list shows all.")
    define.path("data_dir", "Folder of the dataset; empty: the dataset's own place, if it has one.")
    define.path("ignore_images", "List of images to leave out, as python -m pipelines.check writes it; empty: none.")


def _images(define):
    define.integer(
        "image_size", 0, "Side of the square images that the network sees, pixels; 0: the backbone's own.", 0
    )
    define.validator("image_size", lambda size: size == 0 or size >= 8, "Expected 0, or 8 or more.")
    define.string(
        "train_transform", "random_resized_crop(area=(0.5, 1.0))|flip", "Chain of transforms of training images."
    )
    define.string("test_transform", "resize_short|center_crop", "Chain of transforms in evaluation and serving.")
    define.enum(
        "cache",
        "none",
        ["none", "bytes", "pixels"],
        "What is kept of images that were read once: nothing, their files, or their pixels, after those first steps "
        "of the transform that do the same every time. Results are the same.",
    )
    define.float("cache_memory", 4.0, "Memory for --cache, GiB; a split that does not fit is kept in --cache_dir.", 0.0)
    define.path("cache_dir", "Folder, best on a local disk, for what --cache keeps there; empty: ~/.cache/tfdml.")
    define.bool(
        "shrink_decoding",
        False,
        "Decode JPEGs at 1/2, 1/4 or 1/8 where they are resized to that or less: faster, slightly other pixels, in "
        "training, evaluation and export alike.",
    )
    define.integer(
        "max_bad_images",
        0,
        "How many training images may turn out unreadable before the run stops; others of their class stand in for "
        "them. 0: the first one stops it. Each of several workers counts its own.",
        0,
    )


def _network(define):
    define.string("backbone", "small", "Backbone spec, such as small(width=24).")
    define.string(
        "initial_weights",
        "",
        "What the backbone starts from: a Keras weights file (.weights.h5); imagenet: its own download; toycars: what "
        "comes with small(width=16). Empty: random weights.",
    )
    define.string("method", "single", "Method spec: how images become learner embeddings.")
    define.integer("embedding_size", 128, "Dimensions of the embedding.", lower_bound=1)
    define.enum(
        "precision",
        "float32",
        ["float32", "mixed_bfloat16", "mixed_float16"],
        "Precision of the network; losses are always float32.",
    )


def _loss(define):
    define.string("loss", "triplet", "Loss spec, such as triplet(margin=0.2, mining='semi_hard').")
    define.string("sampler", "pxk(classes=32, per_class=4)", "Sampler spec; it decides the batch size.")


def _optimisation(define):
    define.string("optimizer", "adam(learning_rate=0.001)", "Optimizer spec.")
    define.string(
        "schedule",
        "constant",
        "Learning rate schedule spec, in epochs: constant, step(at=(10, 15)), cosine(warmup_epochs=1), ...",
    )
    define.list(
        "lr_multipliers",
        [],
        "Factors of the learning rate by layer group, such as embedding=10,loss=100: backbone, embedding, loss, or a "
        "layer's name, '*' standing for anything; 0 freezes, of several groups the last counts.",
    )
    define.float("warmup_epochs", 0.0, "Epochs at the start in which the backbone is frozen; 0: none.", 0.0)
    define.enum(
        "freeze_batch_norm",
        "none",
        ["none", "statistics", "all"],
        "What of the backbone's batch norm stays as it is: nothing, the moving statistics, scale and offset too.",
    )
    define.bool("decay_biases_and_norms", True, "Whether the optimizer's weight_decay applies to biases and norms.")
    define.float("clip_norm", 0.0, "Longest gradient of all weights together; 0: any.", 0.0)
    define.float(
        "ema",
        0.0,
        "Decay, such as 0.999, of a moving average of the weights that is evaluated and saved in their place; 0: none.",
        0.0,
        0.999999,
    )


def _length(define):
    define.integer("epochs", 20, "Epochs to train.", lower_bound=1)
    define.integer("steps_per_epoch", 0, "Steps that make an epoch; 0: training rows divided by the batch size.", 0)
    define.integer("patience", 0, "Stop after so many evaluations without a better one; 0: never.", lower_bound=0)


def _evaluation(define):
    define.enum(
        "evaluate_on",
        "test",
        ["test", "validation"],
        "Split that is evaluated while training and that chooses the best model. 'test' is what the papers do and is "
        "marked so in result.json; 'validation' holds out training classes.",
    )
    define.float(
        "validation_classes",
        0.2,
        "Share of the training classes that --evaluate_on=validation holds out, 0 to 1.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    define.integer("folds", 0, "Divide the training classes into so many folds; 0: hold out --validation_classes.", 0)
    define.integer("fold", 0, "Which of the --folds is held out, from 0.", lower_bound=0)
    define.string(
        "protocol", "", "Protocol spec of evaluation, such as query_gallery(ks=(1, 10)); empty: the dataset's own."
    )
    define.integer("eval_every", 1, "Evaluate every so many --eval_unit.", lower_bound=1)
    define.enum("eval_unit", "epochs", ["epochs", "steps"], "What --eval_every counts.")
    define.integer("eval_batch_size", 128, "Images in a batch of evaluation.", lower_bound=1)
    define.bool("projector", True, "Write test embeddings for TensorBoard's projector at the end.")


def _running(define):
    define.integer("seed", 0, "Seed of weights, batches, augmentation and dropout.", 0, 2**31 - 1)
    define.string(
        "devices",
        "auto",
        "auto: all GPUs, or the CPU; cpu:N: N virtual CPUs; gpu:N: the first N GPUs; workers: several machines, from "
        "TF_CONFIG.",
    )
    define.bool("deterministic", True, "Use operations that give the same bits every time.")
    define.bool("jit_compile", False, "Compile the step with XLA; one device only, not with --deterministic.")
    define.integer(
        "checkpoint_every", 0, "Also save a checkpoint every so many steps; 0: at the end of epochs only.", 0
    )
    define.integer("keep_checkpoints", 3, "How many of the newest checkpoints are kept.", lower_bound=1)
    define.list("import_modules", [], "Your own modules to import first; they may register losses etc.")


# What --help prints them under.
TOPICS = {
    "Data": _data,
    "Images": _images,
    "Network": _network,
    "Loss and batches": _loss,
    "Optimisation": _optimisation,
    "Length": _length,
    "Evaluation": _evaluation,
    "Run": _running,
}


def define_run_dir(help_text, values=flags.FLAGS):
    flags.DEFINE_string("run_dir", "", help_text, flag_values=values)


def define_which(values=flags.FLAGS):
    flags.DEFINE_enum("model", "best", ["best", "final"], "Which model of the run.", flag_values=values)


def define_debug(values=flags.FLAGS):
    flags.DEFINE_bool("debug", False, "Show the traceback of an error.", flag_values=values)


def settings_of(names, values=flags.FLAGS):
    """The values of the named flags as a plain namespace, which is what everything but command lines sees."""
    return types.SimpleNamespace(**{name: values[name].value for name in names})


def serialize(names, values=flags.FLAGS):
    """`{name: "--name=value"}` of the named flags."""
    return {name: values[name].serialize() or f"--{name}=" for name in names}


def resolve(arguments):
    """What command line arguments of training come to: `{name: "--name=value"}`."""
    values = flags.FlagValues()
    names = define_training(values)
    define_run_dir("", values)
    values(["train", *arguments])
    return serialize(names, values)


def parse(text):
    """Parses a saved flags file: `(settings, {name: "--name=value"})`."""
    values = flags.FlagValues()
    names = define_training(values)
    values(["flags.txt", *text.splitlines()])
    return settings_of(names, values), serialize(names, values)
