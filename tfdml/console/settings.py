"""The settings of a training run, grouped by topic. Each field is a command-line flag."""

import dataclasses
from typing import Literal

from tfdml.console.flag_fields import AbsolutePath, ImageSize, Need, flag, neutral, resumable, topic

IMAGES = Need("a dataset of images", lambda settings: not settings.data.has_vectors)
META_CLASSES = Need("--meta_classes", lambda settings: settings.data.meta_classes > 0)
# --validation_seed is not one of these flags: flagfiles may set it for those of their runs that validate.
HELD_OUT = Need(
    "--evaluate_on=validation without --folds",
    lambda settings: settings.evaluation.evaluate_on == "validation" and not settings.evaluation.folds,
)
EVAL_EVERY = Need("--eval_every", lambda settings: settings.evaluation.eval_every > 0)
PRETRAINED = Need("a backbone with pretrained weights")


@dataclasses.dataclass(frozen=True)
class OptimizationSettings:
    """How the weights are trained."""

    optimizer: str = flag(
        "auto",
        "Optimizer spec, such as adam(learning_rate=0.0003). auto is adam, with a learning rate of 1e-4 if the "
        "backbone is pretrained and of 1e-3 otherwise.",
        recipe="adam(learning_rate=0.0003)",
    )
    schedule: str = flag(
        "constant",
        "Learning rate schedule spec, such as constant, step(at=(10, 15)) or cosine(warmup_epochs=1). Times are in "
        "epochs.",
    )
    lr_multipliers: tuple[str, ...] = flag(
        (),
        "Learning rate multipliers for layer groups, such as embedding=10,loss=100. A group is backbone, embedding, "
        "loss or a layer name, in which '*' matches anything. 0 freezes a group. If a weight is in several groups, "
        "the last one applies.",
        optimizer_argument="lr_multipliers",
    )
    layer_decay: float = flag(
        1.0,
        "Factor by which the learning rate decreases from each block of the backbone to the block before it, such as "
        "0.75. It is combined with --lr_multipliers. 1 trains all blocks at the same learning rate.",
        lower_bound=0.0,
        upper_bound=1.0,
        optimizer_argument="layer_decay",
    )
    warmup_epochs: float = flag(
        0.0,
        "Number of epochs at the start in which the backbone is frozen.",
        lower_bound=0.0,
        optimizer_argument="frozen_steps",
    )
    freeze_until: int = flag(
        0,
        "Number of steps at the start in which the backbone is frozen. Its gradients are not computed, which is faster "
        "than --warmup_epochs.",
        lower_bound=0,
        optimizer_argument="frozen_steps",
    )
    decay_biases_and_norms: bool = flag(
        True,
        "Whether the weight decay of the optimizer applies to biases and normalization layers.",
        optimizer_argument="decay_biases_and_norms",
    )
    clip_norm: float = flag(
        0.0,
        "Maximum norm of the gradient of all weights together. 0 sets no limit.",
        lower_bound=0.0,
        optimizer_argument="global_clipnorm",
    )
    ema: float = flag(
        0.0,
        "Decay of an exponential moving average of the weights, such as 0.999. The averaged weights are evaluated "
        "and saved. 0 uses no average.",
        lower_bound=0.0,
        upper_bound=0.999999,
    )
    blend: bool = flag(
        False,
        "Interpolate between the initial and the final weights at the end of a run with a pretrained backbone "
        "(WiSE-FT), which recovers some of what the network forgets during fine-tuning. The interpolated model is "
        "used if it scores better than all others.",
        recipe=True,
        needs=PRETRAINED,
        is_of_network=True,
    )


LARGEST_SEED = 2**31 - 1
BASELINES = {"pca", "pca_whitened", "lda", "wccn", "linear"}


@dataclasses.dataclass(frozen=True)
class DataSettings:
    """The images that a run learns from."""

    dataset: str = flag(
        "toycars",
        "Dataset spec, such as toycars or folder(test_classes=0.3). For all datasets, see tfdml.train --list.",
    )
    data_dir: AbsolutePath = resumable(
        "",
        "Folder of the dataset, such as a folder of photos with one subfolder per class. If not set, the default "
        "folder of the dataset, if it has one.",
        is_place=True,
    )
    ignore_images: AbsolutePath = flag(
        "",
        "File that lists images to ignore, as written by python -m pipelines.check. If not set, all images are used.",
        may_change=True,
        in_trials="",
        on_another_dataset="",
    )
    labels: str = flag(
        "",
        "Labels to train with instead of the classes: clusters(k=100, every=2) uses cluster assignments, images "
        "makes each image its own class, and exchanged(share=0.2) adds label noise. If not set, the classes are used.",
    )
    levels: tuple[str, ...] = flag(
        (),
        "Levels of the class hierarchy to learn, from coarse to fine, such as make,class. If not set, only the "
        "classes.",
    )
    captions: str = flag(
        "",
        "Templates of captions for the loss image_text, separated by |, in which {} is replaced by the name of the "
        "class, such as 'a photo of a {}'. If not set, the captions of the dataset, if it has any.",
    )
    meta_classes: int = flag(
        0, "Number of random meta-classes to train on instead of the classes. 0 uses the classes.", lower_bound=0
    )
    meta_classes_of: Literal["classes", "images"] = flag(
        "classes", "What --meta_classes merges randomly into meta-classes.", needs=META_CLASSES
    )

    @property
    def has_vectors(self):
        """Whether the dataset contains stored features instead of images."""
        return self.dataset.startswith("embeddings(")


@dataclasses.dataclass(frozen=True)
class ImageSettings:
    """How images are read and prepared."""

    image_size: ImageSize = flag(
        0,
        "Size of the input images in pixels: the side of a square, or height and width, such as 256x128. Larger images "
        "show finer detail but take longer. 0 uses the default size of the backbone.",
        needs=IMAGES,
        recipe=128,
        is_exported=True,
    )
    train_transform: str = flag(
        "random_resized_crop(area=(0.5, 1.0))|flip", "Transforms for training images, separated by |.", needs=IMAGES
    )
    test_transform: str = flag(
        "resize_short|center_crop",
        "Transforms for evaluation and serving, separated by |.",
        needs=IMAGES,
        is_exported=True,
    )
    eval_batch_size: int = neutral(128, "Batch size for evaluation.", lower_bound=1)
    cache: Literal["none", "bytes", "pixels"] = resumable(
        "none",
        "What to cache of each training image: nothing, its file, or its pixels after those first transforms that "
        "are deterministic. With none, only evaluation images are kept in memory, if they fit into --cache_memory "
        "and 25% of the free memory. Results do not change.",
        needs=IMAGES,
        # A cache only helps if images are seen more than once.
        in_opened_run="none",
    )
    cache_memory: float = resumable(
        4.0,
        "Memory for --cache, in GiB. Files or pixels that do not fit are stored in --cache_dir.",
        lower_bound=0.0,
        needs=IMAGES,
    )
    cache_dir: AbsolutePath = resumable(
        "", "Folder for --cache, preferably on a local disk. If not set, ~/.cache/tfdml.", needs=IMAGES
    )
    shrink_decoding: bool = flag(
        False,
        "Decode JPEG files at 1/2, 1/4 or 1/8 of their size if they are resized to that size or less. This is faster "
        "but changes pixels slightly. It applies to training, evaluation and export.",
        needs=IMAGES,
        is_exported=True,
    )
    max_bad_images: int = flag(
        0,
        "Maximum number of unreadable training images, which are replaced by other images of their class. One more "
        "stops the run. Each worker counts its own images.",
        lower_bound=0,
        needs=IMAGES,
    )


@dataclasses.dataclass(frozen=True)
class NetworkSettings:
    """The model that embeds the images."""

    backbone: str = flag(
        "small",
        "Backbone spec: the network that computes features, such as keras_applications(name='MobileNetV2').",
        recipe="keras_applications(name='MobileNetV2')",
        is_of_network=True,
        is_in_initial_model=True,
    )
    initial_weights: str = flag(
        "",
        "Initial weights of the backbone: imagenet (downloaded), toycars (included, for small(width=16)) or a Keras "
        "weights file (.weights.h5). If not set, the weights are random.",
        is_place=True,
        recipe="imagenet",
        is_of_network=True,
        is_in_initial_model=True,
        is_exported=True,
    )
    initial_model: AbsolutePath = flag(
        "",
        "Model to start from: a .keras file or the directory of a run. Its backbone replaces --backbone, and all its "
        "weights are used if --method and the sizes are the same. If not set, training starts from --initial_weights.",
    )
    freeze_batch_norm: Literal["auto", "none", "statistics", "all"] = flag(
        "auto",
        "What to freeze in the batch normalization layers of the backbone: none, the moving statistics, or all, which "
        "includes scale and offset. auto freezes the statistics if they are pretrained.",
    )
    lora: int = flag(
        0,
        "Rank of low-rank adapters (LoRA) for the dense layers and 1 x 1 convolutions of the backbone; all its other "
        "weights are frozen. A smaller rank trains fewer weights. 0 trains the whole backbone.",
        lower_bound=0,
    )
    method: str = flag(
        "single",
        "Method spec: how features become embeddings, such as single or multilevel.",
        recipe="multilevel",
        is_of_network=True,
    )
    head: str = flag(
        "linear", "Head spec: the layers before the embedding layer, such as linear(pooling='gem').", is_exported=True
    )
    embedding_size: int = flag(128, "Number of dimensions of the embedding.", lower_bound=1, recipe=384)
    initial_embedding: Literal["auto", "random", "pca", "pca_whitened", "lda", "wccn"] = flag(
        "random",
        "How to initialize the embedding layer: random; pca, the principal components of the training features; "
        "pca_whitened, these scaled to equal variance; lda, the linear discriminants of the classes; or wccn, "
        "principal components after whitening within classes. If the backbone is pretrained, auto chooses the one "
        "with the best Recall@1 on held-out training classes, or pca_whitened if no class has two images; otherwise "
        "it is random. auto keeps the embedding of --initial_model.",
        recipe="auto",
    )

    baselines: tuple[str, ...] = flag(
        (),
        "Baselines on the frozen pretrained features to add to the table of results: pca, pca_whitened, lda and "
        "wccn, as for --initial_embedding, and linear, a linear layer that starts from wccn and is trained for 1,000 "
        "steps.",
        valid=(lambda names: set(names or ()) <= BASELINES, f"expected some of {', '.join(sorted(BASELINES))}"),
        needs=PRETRAINED,
        in_trials=(),
    )

    @property
    def backbone_or_origin(self):
        """The spec of the backbone or, with `initial_model`, its origin."""
        return f"that of {self.initial_model}" if self.initial_model else self.backbone


@dataclasses.dataclass(frozen=True)
class BatchSettings:
    """The loss and the batches."""

    loss: str = flag(
        "triplet",
        "Loss spec with its miner, such as triplet(margin=0.2, mining='semi_hard').",
        recipe="n_pair(scale=20.0)",
    )
    teacher: AbsolutePath = flag(
        "",
        "Teacher for the loss teacher, such as --loss='triplet + 0.5*teacher': a run directory, a .keras file, a "
        "folder of python -m tfdml.export, or one of python -m tfdml.embed with the training images. The run stores "
        "the teacher's embeddings.",
        needs=IMAGES,
    )
    toward_initial_weights: float = flag(
        0.0,
        "Weight of the squared distance between the weights of the backbone and their initial values, which is added "
        "to --loss. Larger values keep more of what a pretrained network knows.",
        lower_bound=0.0,
    )
    toward_initial_embeddings: float = flag(
        0.0,
        "Weight of the squared distance between embeddings and the initial embeddings, which is added to --loss. "
        "Larger values keep more of what a pretrained network knows.",
        lower_bound=0.0,
    )
    anchor_images: AbsolutePath = flag(
        "",
        "Folder with images without labels, at any depth, which --toward_initial_embeddings compares with the initial "
        "model. If not set, the training images.",
        needs=IMAGES,
    )
    memory: str = flag(
        "",
        "Memory spec, such as xbm(size=8192, start=1000), a cross-batch memory: the loss also compares each batch with "
        "past ones. If not set, there is no memory.",
    )
    sampler: str = flag(
        "pxk(classes=32, per_class=4)",
        "Sampler spec, which determines the batch size: pxk(classes=32, per_class=4) draws 32 classes with 4 images "
        "each. auto is pxk with 64 images per batch.",
        recipe="auto",
    )
    class_weights: float = flag(
        0.0,
        "Weight images by n^-p, where n is the size of their class and p is this value; weights are scaled to a mean "
        "of 1. 0 weights all images equally, 1 all classes.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    remat: bool = flag(
        False,
        "Recompute the blocks of a transformer for gradients instead of storing their activations (gradient "
        "checkpointing). This needs less memory but more time; the gradients are the same.",
    )
    pieces: int = flag(
        1,
        "Number of chunks in which each batch is embedded, one after the other (gradient caching). More chunks need "
        "less memory but more time.",
        lower_bound=1,
    )

    @property
    def whole_loss(self):
        """The spec of the loss with the terms that other flags add."""
        terms = {"weights": self.toward_initial_weights, "embeddings": self.toward_initial_embeddings}
        added = [f"{weight}*toward_initial(of={of!r})" for of, weight in terms.items() if weight]
        return " + ".join([self.loss, *added])


@dataclasses.dataclass(frozen=True)
class LengthSettings:
    """How long a run trains."""

    epochs: int = flag(
        0,
        "Number of epochs. Only used if --steps is 0.",
        is_length=True,
        lower_bound=0,
        why_not_searched="--steps is the length of the longest trials",
    )
    steps: int = flag(
        0,
        "Number of training steps, instead of --epochs. If both are 0, the run has 2,000 steps.",
        is_length=True,
        lower_bound=0,
    )
    steps_per_epoch: int = flag(
        0,
        "Number of steps per epoch. 0 uses about the number of training images divided by the batch size.",
        is_length=True,
        lower_bound=0,
    )
    patience: int = flag(
        -1,
        "Stop early after this many evaluations without improvement. 0 never stops early. -1 is 5 evaluations after "
        "the first 20% of the run with --evaluate_on=validation, and never with --evaluate_on=test.",
        lower_bound=-1,
        in_trials=0,
    )


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    """Which metrics are measured, on which classes, and when."""

    evaluate_on: Literal["test", "validation"] = flag(
        "test",
        "Split that is evaluated during training and selects the best model. validation holds out some of the training "
        "classes. test selects on the test set, as many papers do, which makes the test scores optimistic.",
        recipe="validation",
        in_trials="test",
        in_opened_run="test",
        is_of_validation=True,
    )
    validation_classes: float = flag(
        0.2,
        "Fraction of the training classes that --evaluate_on=validation holds out, from 0 to 1.",
        lower_bound=0.0,
        upper_bound=1.0,
        needs=HELD_OUT,
        is_of_validation=True,
    )
    folds: int = flag(
        0,
        "Number of folds of the training classes for cross-validation. 0 holds out --validation_classes instead.",
        lower_bound=0,
        why_not_searched="a search holds out --validation_classes",
        in_opened_run=0,
        is_of_validation=True,
    )
    fold: int = flag(
        0,
        "Which of the --folds to hold out, counted from 0.",
        lower_bound=0,
        why_not_searched="a search holds out --validation_classes",
        in_opened_run=0,
        is_of_validation=True,
    )
    validation_seed: int = flag(
        -1,
        "Random seed for the choice of validation classes. -1 uses --seed.",
        lower_bound=-1,
        upper_bound=LARGEST_SEED,
        is_of_validation=True,
    )
    protocol: str = flag(
        "",
        "Evaluation protocol spec, such as query_gallery(distance='euclidean'). If not set, the protocol of the "
        "dataset.",
        on_another_dataset="",
    )
    metrics: tuple[str, ...] = neutral(
        (), "Metrics, such as recall_at_1,map_at_r,nmi. If not set, the metrics of the protocol.", on_another_dataset=()
    )
    select_by: str = flag(
        "", "Metric that selects the best model, such as map_at_r. If not set, the first metric of the protocol."
    )
    eval_every: int = neutral(
        0,
        "Evaluate every N epochs or steps, see --eval_unit. 0 evaluates after every epoch with --epochs, and about "
        "ten times with --steps.",
        lower_bound=0,
        # Trials are evaluated at the end of a rung. Its length changes, but this flag must not.
        in_trials=10**9,
    )
    eval_unit: Literal["epochs", "steps"] = neutral(
        "epochs", "Unit of --eval_every.", needs=EVAL_EVERY, in_trials="steps"
    )
    projector: bool = resumable(
        True, "Write the test embeddings for the TensorBoard projector at the end of the run.", in_trials=False
    )


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """Where and how a run computes, and what it saves."""

    seed: int = flag(
        0, "Random seed for weights, batches, augmentation and dropout.", lower_bound=0, upper_bound=LARGEST_SEED
    )
    members: int = flag(
        0,
        "Number of members of an ensemble. Each member is trained as a separate run. 0 trains a single model.",
        lower_bound=0,
        in_trials=0,
    )
    devices: str = neutral(
        "auto",
        "Devices to train on. auto uses all GPUs, or the CPU if there are none; gpu:N the first N GPUs; cpu:N N "
        "virtual CPUs; and workers the machines in the variable TF_CONFIG.",
        in_opened_run="auto",
    )
    deterministic: bool = neutral(
        True, "Only use deterministic operations, so that results are bit-for-bit reproducible.", among_runs=True
    )
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = flag(
        "float32", "Precision of the network. Losses are always computed in float32."
    )
    jit_compile: bool = neutral(
        False,
        "Compile the training step with XLA. This needs a single device and --nodeterministic.",
        among_runs=False,
    )
    checkpoint_every: int = resumable(
        0,
        "Also save a checkpoint every N steps. 0 saves checkpoints only at the end of epochs.",
        lower_bound=0,
        in_trials=0,
    )
    keep_checkpoints: int = resumable(3, "Number of checkpoints to keep.", lower_bound=1, in_trials=1)
    logger: Literal["tensorboard", "mlflow", "wandb"] = resumable(
        "tensorboard",
        "Where to log curves, flags and scores, in addition to metrics.jsonl. mlflow and wandb need their clients: pip "
        "install 'tfdml[mlflow]' or 'tfdml[wandb]'.",
    )
    import_modules: tuple[str, ...] = neutral(
        (), "Your own Python modules to import, for example to register your own losses.", in_opened_run=()
    )


@dataclasses.dataclass(frozen=True)
class Settings:
    """All settings of a training run, by topic. Only commands read flags; all other code uses these settings."""

    data: DataSettings = topic("Data", DataSettings())
    images: ImageSettings = topic("Images", ImageSettings())
    network: NetworkSettings = topic("Network", NetworkSettings())
    batches: BatchSettings = topic("Loss and batches", BatchSettings())
    optimization: OptimizationSettings = topic("Optimization", OptimizationSettings())
    length: LengthSettings = topic("Length", LengthSettings())
    evaluation: EvaluationSettings = topic("Evaluation", EvaluationSettings())
    run: RunSettings = topic("Run", RunSettings())

    def values(self):
        """Returns a dictionary from flag names to values."""
        return {name: value for each in vars(self).values() for name, value in vars(each).items()}

    def without_effect(self):
        """Returns a sentence for each flag that is set but has no effect in combination with the others."""
        values, defaults = self.values(), Settings().values()
        needs = {name: need for name, need in values_of("needs").items() if values[name] != defaults[name]}
        return [
            f"--{name}={values[name]} has no effect, because it needs {need.words}."
            for name, need in needs.items()
            if need.is_met and not need.is_met(self)
        ]

    def replace(self, **values):
        """Returns the settings with other values for some flags."""
        unknown = values.keys() - self.values().keys()
        if unknown:
            raise TypeError(f"There are no flags with these names: {', '.join(sorted(unknown))}.")
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        parts = {}
        for part, settings in vars(self).items():
            own = {name: values[name] for name in vars(settings) if name in values}
            parts[part] = dataclasses.replace(settings, **own)
        return dataclasses.replace(self, **parts)


def _fields():
    return [field for part in dataclasses.fields(Settings) for field in dataclasses.fields(part.type)]


def flags_by_name():
    """Returns a dictionary from the names of all flags to their `Flag`, in order."""
    return {field.name: field.metadata["flag"] for field in _fields()}


def names_with(**properties):
    """Returns the names of flags with these properties of `Flag`, such as `may_change=True`, in order."""
    return tuple(name for name, about in flags_by_name().items() if properties.items() <= vars(about).items())


def names_of_paths():
    """Returns the names of all flags with paths that become absolute, in order."""
    return tuple(field.name for field in _fields() if field.type is AbsolutePath)


def names_of_switches():
    """Returns the names of all boolean flags, in order."""
    return tuple(field.name for field in _fields() if field.type is bool)


def values_of(name):
    """Returns a dictionary from flag names to a property of `Flag`, such as `in_trials`, if it is not None."""
    values = {flag: vars(about)[name] for flag, about in flags_by_name().items()}
    return {flag: value for flag, value in values.items() if value is not None}
