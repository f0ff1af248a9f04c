"""The settings of a training run, by topic. Each field is a flag."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Any, Literal

# The value is absolute, see `PathParser`.
AbsolutePath = Annotated[str, "a path"]
# See `SizeParser`.
ImageSize = Annotated[int | tuple[int, int], "a side, or height and width"]


@dataclasses.dataclass(frozen=True)
class Need:
    """What flags need to have an effect."""

    # What it is, for messages.
    words: str
    # Tells whether `Settings` have it; None: only the backbone tells, once it is loaded.
    is_met: Callable[["Settings"], bool] | None = None


@dataclasses.dataclass(frozen=True)
class Flag:
    """All that is known of a flag, except its name, type and default.

    Properties that are values are None if the flag has none.

    Args:
        help: what `--help` says.
        changes_result: whether it changes what a run learns, not just how it computes or what it measures.
        may_change: whether a run continues with another value.
        is_length: whether a complete run continues with a larger value.
        is_place: whether it says where files are that other machines have elsewhere.
        is_of_network: whether it is about the network of the images, which stored features do not need.
        is_in_initial_model: whether `--initial_model` sets it, and it must be left out.
        is_exported: whether `tfdml.export --backbone` reads it, too.
        is_of_validation: whether it decides which training classes a run holds out for validation.
        needs: the `Need` without which it has no effect.
        recipe: its value in the recipe that docs/choosing.md advises for photos.
        in_trials: its value in the trials of a search: none ends before its rung, and nothing is computed or written
            that nobody looks at.
        why_not_searched: why a search does not use it, such as "--steps is the length of the longest trials".
        in_opened_run: its value where a command opens a run that was trained.
        on_another_dataset: its value where a run's model is measured on another dataset than the run's own.
        among_runs: its value where a command opens several runs, for which TensorFlow is set up once.
        optimizer_argument: the optimizer's argument that it sets.
        lower_bound, upper_bound: of a number.
        valid: function that tells whether a value is valid, and the sentence of the error.
    """

    help: str
    _: dataclasses.KW_ONLY
    changes_result: bool = True
    may_change: bool = False
    is_length: bool = False
    is_place: bool = False
    is_of_network: bool = False
    is_in_initial_model: bool = False
    is_exported: bool = False
    is_of_validation: bool = False
    needs: Need | None = None
    recipe: Any = None
    in_trials: Any = None
    why_not_searched: str | None = None
    in_opened_run: Any = None
    on_another_dataset: Any = None
    among_runs: Any = None
    optimizer_argument: str | None = None
    lower_bound: float | None = None
    upper_bound: float | None = None
    valid: tuple[Callable[[Any], bool], str] | None = None


def flag(default, help_text, **properties):
    """Returns the field of a setting, which is a flag of the same name with these properties of `Flag`."""
    return dataclasses.field(default=default, metadata={"flag": Flag(help_text, **properties)})


IMAGES = Need("a dataset of images", lambda settings: not settings.data.has_vectors)
META_CLASSES = Need("--meta_classes", lambda settings: settings.data.meta_classes > 0)
# A flagfile may have --validation_seed for those of its runs that validate.
HELD_OUT = Need(
    "--evaluate_on=validation without --folds",
    lambda settings: settings.evaluation.evaluate_on == "validation" and not settings.evaluation.folds,
)
EVAL_EVERY = Need("--eval_every", lambda settings: settings.evaluation.eval_every > 0)
PRETRAINED = Need("a backbone with pretrained weights")

# Flags that change no result, and of these, those with other values of which a run continues.
neutral = functools.partial(flag, changes_result=False)
resumable = functools.partial(neutral, may_change=True)


def topic(heading, settings):
    """Returns the field of the settings of a topic, which `--help` shows below a heading."""
    return dataclasses.field(default=settings, metadata={"heading": heading})


@dataclasses.dataclass(frozen=True)
class OptimizationSettings:
    """How weights change."""

    optimizer: str = flag(
        "auto",
        "Optimizer spec; auto: adam, at a rate of 1e-4 if pretrained, of 1e-3 if not.",
        recipe="adam(learning_rate=0.0003)",
    )
    schedule: str = flag(
        "constant", "Learning rate schedule spec, in epochs: constant, step(at=(10, 15)), cosine(warmup_epochs=1), ..."
    )
    lr_multipliers: tuple[str, ...] = flag(
        (),
        "Learning rate multipliers by layer group, such as embedding=10,loss=100. A group is backbone, embedding, "
        "loss, or a layer name, in which '*' matches anything. 0 freezes; of several groups the last applies.",
        optimizer_argument="lr_multipliers",
    )
    layer_decay: float = flag(
        1.0,
        "Factor, such as 0.75, of the learning rate from each block of the backbone to the one before it, beside "
        "--lr_multipliers; 1: all alike.",
        lower_bound=0.0,
        upper_bound=1.0,
        optimizer_argument="layer_decay",
    )
    warmup_epochs: float = flag(
        0.0,
        "Number of first epochs in which the backbone is frozen; 0: none.",
        lower_bound=0.0,
        optimizer_argument="frozen_steps",
    )
    freeze_until: int = flag(
        0,
        "Number of first steps in which the backbone is frozen and its gradients are not computed, which takes less "
        "time; 0: none.",
        lower_bound=0,
        optimizer_argument="frozen_steps",
    )
    decay_biases_and_norms: bool = flag(
        True,
        "Whether the optimizer's weight_decay applies to biases and norms.",
        optimizer_argument="decay_biases_and_norms",
    )
    clip_norm: float = flag(
        0.0,
        "Maximum norm of the gradient of all weights; 0: no limit.",
        lower_bound=0.0,
        optimizer_argument="global_clipnorm",
    )
    ema: float = flag(
        0.0,
        "Decay, such as 0.999, of a moving average of the weights, which is evaluated and saved instead; 0: none.",
        lower_bound=0.0,
        upper_bound=0.999999,
    )
    blend: bool = flag(
        False,
        "At the end of a run from pretrained weights, try means of the first and the final weights, and take the best "
        "one as the best model if it beats all others.",
        recipe=True,
        needs=PRETRAINED,
        is_of_network=True,
    )


LARGEST_SEED = 2**31 - 1
BASELINES = {"pca", "pca_whitened", "lda", "wccn", "linear"}


@dataclasses.dataclass(frozen=True)
class DataSettings:
    """The images that a run learns from."""

    dataset: str = flag("toycars", "Dataset spec: toycars(...), folder, ...; tfdml.train --list shows all.")
    data_dir: AbsolutePath = resumable(
        "", "Folder of the dataset; empty: the dataset's default, if it has one.", is_place=True
    )
    ignore_images: AbsolutePath = flag(
        "",
        "File that lists images to leave out, from python -m pipelines.check; empty: none.",
        may_change=True,
        in_trials="",
        on_another_dataset="",
    )
    labels: str = flag(
        "", "In place of classes: clusters(k=100, every=2); images, each a class; exchanged(share=0.2), mistakes."
    )
    levels: tuple[str, ...] = flag((), "Levels of classes to learn, from coarse to fine, such as make,class.")
    meta_classes: int = flag(
        0, "Number of random meta-classes to train on instead of the classes; 0: none.", lower_bound=0
    )
    meta_classes_of: Literal["classes", "images"] = flag(
        "classes", "What --meta_classes merges at random.", needs=META_CLASSES
    )

    @property
    def has_vectors(self):
        """Whether the dataset has stored features, which no network computes."""
        return self.dataset.startswith("embeddings(")


@dataclasses.dataclass(frozen=True)
class ImageSettings:
    """How images are read and prepared."""

    image_size: ImageSize = flag(
        0,
        "Size of the network's input images in pixels: the side of a square, or height x width, such as 256x128; 0: "
        "the backbone's own.",
        needs=IMAGES,
        recipe=128,
        is_exported=True,
    )
    train_transform: str = flag(
        "random_resized_crop(area=(0.5, 1.0))|flip", "Chain of transforms for training images.", needs=IMAGES
    )
    test_transform: str = flag(
        "resize_short|center_crop", "Chain of transforms for evaluation and serving.", needs=IMAGES, is_exported=True
    )
    eval_batch_size: int = neutral(128, "Batch size of evaluation.", lower_bound=1)
    cache: Literal["none", "bytes", "pixels"] = resumable(
        "none",
        "What to cache of each image: nothing, its file, or its pixels after the first steps of the transform that do "
        "the same every time. With none, only images that are evaluated again and again stay in memory, where they fit "
        "into --cache_memory and a quarter of what is free. Results are the same.",
        needs=IMAGES,
        # It is of use where images are seen more than once.
        in_opened_run="none",
    )
    cache_memory: float = resumable(
        4.0,
        "Memory for --cache in GiB; files or pixels that do not fit go to --cache_dir.",
        lower_bound=0.0,
        needs=IMAGES,
    )
    cache_dir: AbsolutePath = resumable(
        "", "Folder for --cache, best on a local disk; empty: ~/.cache/tfdml.", needs=IMAGES
    )
    shrink_decoding: bool = flag(
        False,
        "Decode a JPEG at 1/2, 1/4 or 1/8 of its size if it is resized to that or less. Faster, with slightly "
        "different pixels, in training, evaluation and export alike.",
        needs=IMAGES,
        is_exported=True,
    )
    max_bad_images: int = flag(
        0,
        "Number of unreadable training images that are replaced by others of their class; one more stops the run. 0: "
        "the first one stops it. Each of several workers counts its own.",
        lower_bound=0,
        needs=IMAGES,
    )


@dataclasses.dataclass(frozen=True)
class NetworkSettings:
    """The model that embeds the images."""

    backbone: str = flag(
        "small",
        "Backbone spec, such as small(width=24).",
        recipe="keras_applications(name='MobileNetV2')",
        is_of_network=True,
        is_in_initial_model=True,
    )
    initial_weights: str = flag(
        "",
        "Initial weights of the backbone: a Keras weights file (.weights.h5); imagenet: the backbone's own download; "
        "toycars: included weights of small(width=16). Empty: random weights.",
        is_place=True,
        recipe="imagenet",
        is_of_network=True,
        is_in_initial_model=True,
        is_exported=True,
    )
    initial_model: AbsolutePath = flag(
        "",
        "A .keras file or the folder of a run: training starts from this model, with its backbone in place of "
        "--backbone, and with all its weights if --method and sizes are the same. Empty: from --initial_weights.",
    )
    freeze_batch_norm: Literal["auto", "none", "statistics", "all"] = flag(
        "auto",
        "Freeze in the backbone's batch norm: nothing, statistics, or all; auto: statistics if they are pretrained.",
    )
    lora: int = flag(
        0,
        "Rank of the changes that training makes to the backbone's dense layers and 1 x 1 convolutions, LoRA; all its "
        "other weights stay as they are. 0: all of it trains.",
        lower_bound=0,
    )
    method: str = flag(
        "single", "Method spec: how images become learner embeddings.", recipe="multilevel", is_of_network=True
    )
    head: str = flag(
        "linear", "Head spec: the layers before the linear layer, such as linear(pooling='gem').", is_exported=True
    )
    embedding_size: int = flag(128, "Dimensions of the embedding.", lower_bound=1, recipe=384)
    initial_embedding: Literal["auto", "random", "pca", "pca_whitened", "lda", "wccn"] = flag(
        "random",
        "How the embedding layer is initialized: random directions; pca, principal components of the training images' "
        "features; pca_whitened, components of equal variance; lda, linear discriminants of the classes; wccn, "
        "components after whitening within classes. auto: if the backbone is pretrained, the one of these with the "
        "best Recall@1 on held-out training classes, or pca_whitened if no class has two images; otherwise random. "
        "auto keeps the embedding of --initial_model.",
        recipe="auto",
    )

    baselines: tuple[str, ...] = flag(
        (),
        "Rows of the table of a run from pretrained weights, made of the frozen features: pca, pca_whitened, lda, "
        "wccn, as in --initial_embedding, and linear, a linear layer that starts from wccn and trains for 1,000 steps.",
        valid=(lambda names: set(names or ()) <= BASELINES, f"expected some of {', '.join(sorted(BASELINES))}"),
        needs=PRETRAINED,
        in_trials=(),
    )

    @property
    def backbone_or_origin(self):
        """The spec of the backbone; with `initial_model`, where it is from."""
        return f"that of {self.initial_model}" if self.initial_model else self.backbone


@dataclasses.dataclass(frozen=True)
class BatchSettings:
    """The batches, and the loss of one."""

    loss: str = flag(
        "triplet", "Loss spec, such as triplet(margin=0.2, mining='semi_hard').", recipe="n_pair(scale=20.0)"
    )
    memory: str = flag("", "Memory spec, such as xbm(size=8192, start=1000): compare batches with past ones, too.")
    sampler: str = flag(
        "pxk(classes=32, per_class=4)", "Sampler spec, which determines the batch size; auto: pxk of 64.", recipe="auto"
    )
    class_weights: float = flag(
        0.0,
        "How much images of small classes count in the loss: with p, of a class with n images n^-p, their mean 1; 0: "
        "all alike.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    remat: bool = flag(
        False,
        "Compute the blocks of a transformer again for gradients, in place of keeping what is in them: less memory, "
        "more time, the same gradients.",
    )
    pieces: int = flag(1, "Embed batches in so many pieces, one after another: less memory, more time.", lower_bound=1)


@dataclasses.dataclass(frozen=True)
class LengthSettings:
    """How long a run trains."""

    epochs: int = flag(
        0,
        "Number of epochs; 0: --steps decides.",
        is_length=True,
        lower_bound=0,
        why_not_searched="--steps is the length of the longest trials",
    )
    steps: int = flag(
        0, "Number of steps, in place of --epochs; 0 for both: 2000 steps.", is_length=True, lower_bound=0
    )
    steps_per_epoch: int = flag(
        0, "Steps in an epoch; 0: training images divided by the batch size.", is_length=True, lower_bound=0
    )
    patience: int = flag(
        -1,
        "Stop after so many evaluations without improvement; 0: never; -1: with --evaluate_on=validation 5 after the "
        "first fifth of the run, or never.",
        lower_bound=-1,
        in_trials=0,
    )


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    """The metrics, on which classes they are measured, and when."""

    evaluate_on: Literal["test", "validation"] = flag(
        "test",
        "Split that is evaluated while training and selects the best model. 'test' is what papers do, and result.json "
        "says so; 'validation' holds out training classes.",
        recipe="validation",
        in_trials="test",
        in_opened_run="test",
        is_of_validation=True,
    )
    validation_classes: float = flag(
        0.2,
        "Fraction of the training classes that --evaluate_on=validation holds out, 0 to 1.",
        lower_bound=0.0,
        upper_bound=1.0,
        needs=HELD_OUT,
        is_of_validation=True,
    )
    folds: int = flag(
        0,
        "Number of folds of the training classes; 0: hold out --validation_classes.",
        lower_bound=0,
        why_not_searched="a search holds out --validation_classes",
        in_opened_run=0,
        is_of_validation=True,
    )
    fold: int = flag(
        0,
        "The fold of --folds to hold out, counted from 0.",
        lower_bound=0,
        why_not_searched="a search holds out --validation_classes",
        in_opened_run=0,
        is_of_validation=True,
    )
    validation_seed: int = flag(
        -1,
        "Seed of the choice of validation classes; -1: --seed.",
        lower_bound=-1,
        upper_bound=LARGEST_SEED,
        is_of_validation=True,
    )
    protocol: str = flag(
        "",
        "Protocol spec, such as query_gallery(distance='euclidean'); empty: the dataset's own.",
        on_another_dataset="",
    )
    metrics: tuple[str, ...] = neutral(
        (), "Metrics, such as recall_at_1,map_at_r,nmi; empty: the protocol's own.", on_another_dataset=()
    )
    select_by: str = flag("", "Metric that selects the best model, such as map_at_r; empty: the first of the protocol.")
    eval_every: int = neutral(
        0,
        "Evaluate every N --eval_unit; 0: every epoch of --epochs, or ten times in --steps.",
        lower_bound=0,
        # Evaluation is at the end of a rung, whose length changes, while this flag may not.
        in_trials=10**9,
    )
    eval_unit: Literal["epochs", "steps"] = neutral(
        "epochs", "Unit of --eval_every.", needs=EVAL_EVERY, in_trials="steps"
    )
    projector: bool = resumable(
        True, "Write the test embeddings for TensorBoard's projector at the end.", in_trials=False
    )


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """Where and how a run computes, and what it keeps."""

    seed: int = flag(0, "Seed of weights, batches, augmentation and dropout.", lower_bound=0, upper_bound=LARGEST_SEED)
    members: int = flag(
        0, "Number of members of an ensemble, each a run of its own; 0: an ordinary run.", lower_bound=0, in_trials=0
    )
    devices: str = neutral(
        "auto",
        "auto: all GPUs, or the CPU; cpu:N: N virtual CPUs; gpu:N: the first N GPUs; workers: several machines, from "
        "TF_CONFIG.",
        in_opened_run="auto",
    )
    deterministic: bool = neutral(True, "Use operations that give the same bits every time.", among_runs=True)
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = flag(
        "float32", "Precision of the network; losses are always float32."
    )
    jit_compile: bool = neutral(
        False, "Compile the step with XLA; one device only, not with --deterministic.", among_runs=False
    )
    checkpoint_every: int = resumable(
        0, "Also save a checkpoint every N steps; 0: only at the end of epochs.", lower_bound=0, in_trials=0
    )
    keep_checkpoints: int = resumable(3, "Number of checkpoints to keep.", lower_bound=1, in_trials=1)
    logger: Literal["tensorboard", "mlflow", "wandb"] = resumable(
        "tensorboard",
        "Where curves, flags and scores go beside metrics.jsonl; mlflow and wandb need their clients: pip install "
        "'tfdml[mlflow]' or 'tfdml[wandb]'.",
    )
    import_modules: tuple[str, ...] = neutral(
        (), "Your own modules to import first, which may register losses and other parts.", in_opened_run=()
    )


@dataclasses.dataclass(frozen=True)
class Settings:
    """All settings of a training run, by topic. Everything but commands sees these instead of flags."""

    data: DataSettings = topic("Data", DataSettings())
    images: ImageSettings = topic("Images", ImageSettings())
    network: NetworkSettings = topic("Network", NetworkSettings())
    batches: BatchSettings = topic("Loss and batches", BatchSettings())
    optimization: OptimizationSettings = topic("Optimization", OptimizationSettings())
    length: LengthSettings = topic("Length", LengthSettings())
    evaluation: EvaluationSettings = topic("Evaluation", EvaluationSettings())
    run: RunSettings = topic("Run", RunSettings())

    def values(self):
        """Returns the value of each flag by its name."""
        return {name: value for each in vars(self).values() for name, value in vars(each).items()}

    def without_effect(self):
        """Returns a sentence for each flag that has another value than its default, and no effect beside the others."""
        values, defaults = self.values(), Settings().values()
        needs = {name: need for name, need in values_of("needs").items() if values[name] != defaults[name]}
        return [
            f"--{name}={values[name]} has no effect: it needs {need.words}."
            for name, need in needs.items()
            if need.is_met and not need.is_met(self)
        ]

    def replace(self, **values):
        """Returns the settings with other values of some flags, by name, whichever their topics."""
        unknown = values.keys() - self.values().keys()
        if unknown:
            raise TypeError(f"Expected names of flags, received {', '.join(sorted(unknown))}.")
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        parts = {}
        for part, settings in vars(self).items():
            own = {name: values[name] for name in vars(settings) if name in values}
            parts[part] = dataclasses.replace(settings, **own)
        return dataclasses.replace(self, **parts)


def flags_by_name():
    """Returns name to `Flag` of all settings, in their order."""
    fields = [field for part in dataclasses.fields(Settings) for field in dataclasses.fields(part.type)]
    return {field.name: field.metadata["flag"] for field in fields}


def names_with(**properties):
    """Returns the names of the flags with properties of `Flag`, such as `may_change=True`, in their order."""
    return tuple(name for name, about in flags_by_name().items() if properties.items() <= vars(about).items())


def values_of(name):
    """Returns flag to value of a property of `Flag`, such as `in_trials`, of the flags that have one."""
    values = {flag: vars(about)[name] for flag, about in flags_by_name().items()}
    return {flag: value for flag, value in values.items() if value is not None}
