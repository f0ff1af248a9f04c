"""What training gains over the pretrained features: baselines, weight interpolation, and the verdict."""

import dataclasses
import math
from typing import Any

import keras
import numpy as np
from keras import backend

from pipelines.build import training_batches
from pipelines.dataset import Split
from pipelines.operations import tf
from pipelines.sampling import each_alone
from pipelines.stored import StoredVectors
from tfdml import registry
from tfdml.backbones import Identity
from tfdml.callbacks import InitialEmbedding
from tfdml.callbacks.base import TrainingParts, steps_taken
from tfdml.console import scores as shown
from tfdml.console.flags import command_line, written
from tfdml.console.settings import Settings, names_with
from tfdml.evaluation.statistics import bootstrap_intervals, resampled_means
from tfdml.methods import Single
from tfdml.registry.arguments import sides_of
from tfdml.registry.loss_hooks import hooks_of
from tfdml.run.training.model import loss_of
from tfdml.run.training.run_sampler import make_sampler

# The learning rate and the image size that are advised.
RATE, SIDE = 0.0001, 224
# What to try if training has gained nothing, and whether a run with these values of flags has tried it.
ADVICE = {
    "averaging the weights before and after training (--blend)": lambda values: values["blend"],
    "several feature levels (--method=multilevel)": lambda values: "multilevel" in values["method"],
    f'a lower learning rate (--optimizer="adam(learning_rate={RATE})")': lambda values: _rate(values) <= RATE,
    "a lower learning rate for the backbone alone (--lr_multipliers=backbone=0.1)": lambda values: (
        "backbone" in str(values["lr_multipliers"])
    ),
    f"larger images (--image_size={SIDE})": lambda values: _side(values) >= SIDE,
}
ADVISED = 3
OPTIMISTIC = (
    "The best model was selected on the test set, so this gain is optimistic. To select it on held-out training "
    "classes instead, set --evaluate_on=validation."
)
# Flags that export the pretrained network as a run with them has it.
OF_EXPORT = ("backbone", *names_with(is_exported=True))


def gain_of(features, best, labels, metric):
    """Returns how much better the best model is than the pretrained features, from the `Scores` of both on one split.

    If `metric` is not a mean over queries, the first metric that is one replaces it. The keys are `metric`, `features`,
    `best`, their `difference` and its 95% confidence `interval` over classes. Returns None if no metric is such a mean
    or if there is only one class.
    """
    names = [metric] if metric in best.per_query else list(best.per_query)
    if not names or len(np.unique(labels[best.queries])) < 2:
        return None
    name = names[0]
    before, after = features.per_query[name], best.per_query[name]
    interval = bootstrap_intervals({name: after - before}, labels[best.queries])[name]
    means = {"features": float(np.mean(before)), "best": float(np.mean(after))}
    return {"metric": name, **means, "difference": means["best"] - means["features"], "interval": interval}


def gain_in_words(result, settings):
    """Returns the verdict about the gain in a result and, if training did not help, a line with advice.

    Returns an empty text if the result has no gain, because the backbone is not pretrained.
    """
    gain = result.get("gain")
    if not gain:
        return ""
    metric, low, high = gain["metric"], *gain["interval"]
    on_test = f"{shown.titled(metric)} on the test set"
    before, after = f"{shown.score(metric, gain['features'])} (pretrained features)", shown.score(metric, gain["best"])
    by = f"{shown.difference(metric, gain['difference'])} (95% CI {shown.interval(metric, (low, high), sign='+')})"
    if result["best"]["step"] == 0:
        verdict = (
            "Training did not improve the model: the best model is the initial embedding, before training. Its "
            f"{on_test} is {after}, compared with {before}: {by}."
        )
    elif low > 0:
        improved = f"Training improved {on_test} from {before} to {after}: {by}."
        return f"{improved}\n{OPTIMISTIC}" if result["best"].get("selected_on") == "test" else improved
    elif high < 0:
        verdict = f"Training lowered {on_test} from {before} to {after}: {by}."
    else:
        verdict = (
            f"Training did not clearly improve {on_test}: it changed from {before} to {after}, {by}. The interval "
            "contains 0, so the change may be due to chance."
        )
    return f"{verdict}\n{_advice(settings.values())}"


def untried(values):
    """Returns what may help training and has not been tried, such as `larger images (--image_size=224)`.

    `values` maps names of flags to their values in a run that starts from a pretrained backbone.
    """
    if values["backbone"].startswith("identity"):
        # There is no backbone that could learn.
        return []
    return [text for text, tried in ADVICE.items() if not tried(values)][:ADVISED]


def _advice(values):
    """Returns what to do next: what a run with these flags has not tried, or else how to do without training."""
    left = untried(values)
    tried = ", or ".join([", ".join(left[:-1]), left[-1]] if left[1:] else left)
    sentences = [f"What to do next: try {tried}." if left else "What to do next: check the labels (tfdml.suspects)."]
    if values["initial_weights"] and not values["backbone"].startswith("identity"):
        defaults = Settings().values()
        chosen = {name: values[name] for name in OF_EXPORT if name == "backbone" or values[name] != defaults[name]}
        export = command_line("python", "-m", "tfdml.export", *written(chosen).values(), "--out=pretrained")
        sentences.append(f"To use the pretrained network without training: {export}")
    return "\n".join(sentences)


def _rate(values):
    """Returns the learning rate. `auto` uses the advised one, and the defaults of all others are higher."""
    name, arguments = registry.parse(values["optimizer"])[0]
    return arguments.get("learning_rate", RATE if name == "auto" else math.inf)


def _side(values):
    """Returns the longer side of the images. The default size of a backbone suits it, so it counts as advised."""
    return max(sides_of(values["image_size"])) if values["image_size"] else SIDE


# Training steps of the baseline `linear`.
STEPS = 1000
# Baselines that need classes.
OF_CLASSES = ("lda", "wccn", "linear")


def baselines_of(experiment, features, tested):
    """Returns the test metrics of the baselines in `--baselines`.

    `features` is the model of the pretrained features, and `tested` are the features of the test split, `[N, c]`.
    """
    names = experiment.settings.network.baselines
    if not names:
        return {}
    # Tolerant, because training has skipped images that cannot be read.
    vectors = experiment.embed(features, experiment.splits.train, tolerant=True)
    embedded = {name: _head(experiment, vectors, name).predict(tested, verbose=0) for name in names}
    return {"baselines": {name: experiment.measure(each, experiment.splits.test) for name, each in embedded.items()}}


def check_baselines(experiment):
    """Raises a ValueError if `--baselines` need classes but no class has two training images."""
    named = [name for name in experiment.settings.network.baselines if name in OF_CLASSES]
    if named and each_alone(experiment.splits.train.labels):
        raise ValueError(
            f"--baselines={','.join(named)} need classes with several images, but no class has two training images. "
            "Remove them; pca and pca_whitened need no classes."
        )


def _head(experiment, vectors, name):
    """Returns the linear layer of a baseline on training features `[N, c]`; only `linear` is trained."""
    settings, train = experiment.settings, experiment.splits.train
    labels = train.labels
    keras.utils.set_random_seed(settings.run.seed)
    head = Single(Identity(vectors.shape[1]), embedding_size=settings.network.embedding_size)
    head.call_on((1, vectors.shape[1]))
    InitialEmbedding(vectors, labels, kind="wccn" if name == "linear" else name).apply(head)
    if name != "linear":
        return head
    sampler = make_sampler(settings.batches.sampler, experiment.splits, settings.evaluation)
    loss, seed = loss_of(settings.batches.loss, train), settings.run.seed
    head.compile(registry.create("optimizer", "adam(learning_rate=0.001)"), loss=loss)
    levels = {"hierarchy": train.hierarchy, "level_names": train.level_names}
    split, step = Split(StoredVectors([vectors]), labels, **levels), tf.Variable(0, dtype=tf.int64)
    batches = training_batches(split, sampler, None, seed=seed, step=step, steps_per_epoch=STEPS)
    # Losses that change during training need their callbacks.
    length = {"steps": STEPS, "steps_per_epoch": STEPS, "step": lambda: steps_taken(head)}
    parts = {"images": lambda: vectors, "labels": labels, "sampler": sampler, "seed": seed, "log": None, "verbose": 0}
    head.fit(batches, verbose=0, callbacks=hooks_of(loss).callbacks(TrainingParts(**length, **parts)))
    return head


# Weights of the final model in the interpolation.
SHARES = (0.25, 0.5, 0.75)


@dataclasses.dataclass(frozen=True)
class Blend:
    """The best interpolation between the initial and the final weights of a run (WiSE-FT).

    It recovers some of what a pretrained network forgets during fine-tuning, as in Wortsman et al., "Robust fine-tuning
    of zero-shot models", CVPR 2022. `share` is the weight of the final model, and `metrics` are measured on the classes
    that select the best model.
    """

    share: float
    metrics: dict[str, Any]

    @classmethod
    def best(cls, experiment, model, first, monitor):
        """Measures interpolations between the `first` weights and a final `model`, which keeps its weights.

        Chooses the largest share of the final weights with a metric `monitor` within one standard error over classes of
        the best one. A choice by the metric alone would be random if there are few classes.
        """
        split, metrics = experiment.splits.evaluation, experiment.splits.protocol.while_training
        final, blends = model.get_weights(), []
        for share in SHARES:
            model.set_weights(between(first, final, share))
            scores = experiment.scores(experiment.embed(model, split), split, metrics)
            blends.append((scores, cls(share, scores.summary())))
        model.set_weights(final)
        best = max(blends, key=lambda each: each[1].metrics[monitor])[0]
        return [blend for scores, blend in blends if not _is_worse(scores, best, monitor, split.labels)][-1]


def between(first, final, share):
    """Returns interpolated weights. Values that are not floats, such as random seeds, are the final ones."""
    return [
        ((1 - share) * before + share * after).astype(after.dtype)
        if backend.is_float_dtype(backend.standardize_dtype(after.dtype))
        else after
        for before, after in zip(first, final, strict=True)
    ]


def _is_worse(scores, best, monitor, labels):
    """Whether scores are below the best ones by more than one standard error."""
    behind = best.values[monitor] - scores.values[monitor]
    if monitor not in best.per_query or behind <= 0:
        return behind > 0
    differences = best.per_query[monitor] - scores.per_query[monitor]
    classes = labels[best.queries]
    return len(np.unique(classes)) < 2 or behind > resampled_means(differences[:, None], classes).std()


def set_aside(run):
    """Keeps the best model of a step when an interpolation replaces it, because a longer run compares with it."""
    for path, aside in _kept(run):
        if path.is_file():
            path.rename(aside)


def put_back(run):
    """Restores the best model of a step."""
    for path, aside in _kept(run):
        if aside.is_file():
            aside.rename(path)


def _kept(run):
    """Returns the files of the best model and the paths that they are moved to."""
    return [(run.model, run.path / "best_step.keras"), (run.adapter, run.path / "best_step_adapter.weights.h5")]
