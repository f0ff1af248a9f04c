"""The result of a run, and the files written at its end."""

import numpy as np

from pipelines.images.decoding import thumbnails
from tfdml.callbacks import Projector
from tfdml.console.scores import BEFORE_TRAINING
from tfdml.evaluation import cost, diversity
from tfdml.evaluation.evaluate import breakdown
from tfdml.evaluation.statistics import class_intervals
from tfdml.methods import Features
from tfdml.run.directory.model_files import load_best, save_best, save_model
from tfdml.run.experiment.experiment import text_values
from tfdml.run.experiment.judged_images import clusters_of
from tfdml.run.training.distillation import distillation_of
from tfdml.run.training.gain import Blend, baselines_of, between, gain_of, set_aside
from tfdml.run.training.model import initial_embedding, is_pretrained

# Side of the images in the projector, in pixels.
THUMBNAIL = 48


class Beginning:
    """The model before training and, if the backbone is pretrained, its features.

    `build` returns the model as it was before training, but without its initial embedding.
    """

    def __init__(self, experiment, backbone, build):
        settings, test = experiment.settings, experiment.splits.test
        pretrained, selects_elsewhere = is_pretrained(settings, backbone), settings.evaluation.evaluate_on != "test"
        self.blends = pretrained and settings.optimization.blend
        self.model = build() if pretrained or selects_elsewhere else None
        # The model of the pretrained features, its `Scores` on the test split, and entries for the result.
        self.features, self.scores, self.findings = None, None, {}
        if pretrained:
            with experiment.strategy.scope():
                self.features = Features(self.model.backbone)
            embeddings = experiment.embed(self.features, test)
            self.scores = experiment.scores(embeddings, test)
            self.findings = {"features": self.scores.summary(), **baselines_of(experiment, self.features, embeddings)}
        if self.blends or selects_elsewhere:
            for initial in initial_embedding(experiment, self.model, on_choice=self._keep_choice):
                initial.apply(self.model)

    def _keep_choice(self, kind, recalls):
        self.findings["initial_embedding"] = {"kind": kind, "recall_at_1": recalls}


def result_of(experiment, run, model, evaluation, step, build_untrained, assignment, references):
    """Measures the initial, the best and the final model on the test split. Writes the final files.

    `model` is the final model, after `step` steps; `evaluation` is its `RetrievalEvaluation`. Afterwards, it may have
    the weights of the best model. For `build_untrained`, see `Beginning`. `assignment` is the cluster of each training
    image, or None. `references` are the `References` of the run.
    """
    selected_on, test = experiment.settings.evaluation.evaluate_on, experiment.splits.test
    protocol, best_is_final = experiment.splits.protocol, evaluation.best["step"] == step
    embeddings = evaluation.embeddings
    if selected_on != "test" or embeddings is None or evaluation.history[-1]["step"] != step:
        embeddings = experiment.embed(model, test)
    final = experiment.measure(embeddings, test, model=model)
    _write_final(experiment, run, model, embeddings, assignment)
    begun = Beginning(experiment, model.backbone, build_untrained)
    if selected_on == "test":
        untrained, watched = evaluation.history[0]["metrics"], {}
    else:
        watched = {selected_on: _watched(experiment, model, evaluation, step, begun.features)}
        untrained = experiment.measure(experiment.embed(begun.model, test), test, model=begun.model)
    blend = _blend(experiment, run, model, begun.model, evaluation) if begun.blends else None
    if blend:
        for selected in watched.values():
            selected["best"] = blend.metrics
    elif not best_is_final:
        load_best(model, run)
    if blend or not best_is_final:
        embeddings = experiment.embed(model, test)
    best, texts = experiment.scores(embeddings, test), experiment.text_scores(model, embeddings, test)
    intervals = {**experiment.text_intervals(texts, test), **class_intervals(best, test.labels)}
    return {
        **({"index": repr(protocol.index)} if protocol.index.is_approximate else {}),
        **begun.findings,
        "untrained": untrained,
        "metrics": final,
        "best": {
            **text_values(texts),
            **best.summary(),
            **({"step": step, "blend": blend.share} if blend else {"step": evaluation.best["step"]}),
            "selected_on": selected_on,
            "selected_by": evaluation.monitor,
        },
        **breakdown(best, embeddings, test, protocol.distance),
        **({"intervals": intervals} if intervals else {}),
        **({"gain": gain_of(begun.scores, best, test.labels, evaluation.monitor)} if begun.scores else {}),
        **watched,
        **distillation_of(experiment, references, model, embeddings, best),
        "selected_on": selected_on,
        "step": step,
        **_learners(experiment, model, embeddings),
    }


def _write_final(experiment, run, model, embeddings, assignment):
    """Writes the final model and its test embeddings for the projector."""
    shown = experiment.settings.evaluation.projector
    # All workers take part in embedding.
    clusters = clusters_of(embeddings, experiment, model, experiment.splits.train, assignment) if shown else None
    if experiment.chief:
        save_model(model, run.final_model)
        if shown:
            write_projector(experiment, embeddings, run, model.learner_count, clusters)


def _blend(experiment, run, model, begun, evaluation):
    """Applies the best `Blend` to a model and saves it as the best one; returns None if a checkpoint is as good."""
    first, monitor = begun.get_weights(), evaluation.monitor
    blend = Blend.best(experiment, model, first, monitor)
    if blend.metrics[monitor] <= evaluation.best["metrics"][monitor]:
        return None
    model.set_weights(between(first, model.get_weights(), blend.share))
    if experiment.chief:
        set_aside(run)
        save_best(model, run)
    return blend


def _watched(experiment, model, evaluation, step, features):
    """Returns the metrics of the final, the best and the initial model on the split evaluated during training.

    `features` is the model of the pretrained features, which is measured as well, or None.
    """
    split, metrics = experiment.splits.evaluation, experiment.splits.protocol.while_training
    first, last = evaluation.history[0], evaluation.history[-1]

    def measure(which):
        return experiment.measure(experiment.embed(which, split), split, metrics, None if which is features else which)

    final = last["metrics"] if last["step"] == step else measure(model)
    watched = {"metrics": final, "best": evaluation.best["metrics"], "untrained": first["metrics"]}
    return {**watched, "features": measure(features)} if features else watched


def _learners(experiment, model, embeddings):
    """Returns how the learners of a model differ on the test split, and their cost."""
    count, one_learner = model.learner_count, model.of_one_learner()
    if count == 1 and one_learner is None:
        return {}
    shape = experiment.images.preprocessing(model).image_shape
    costs = cost(model, shape)
    if count == 1:
        return {"cost": costs}
    if one_learner is not None:
        costs["one_learner"] = cost(one_learner, shape)
    return {"learners": diversity_of(experiment, embeddings, count), "cost": costs}


def diversity_of(experiment, embeddings, count, metrics=None, weights=None):
    """Measures how learners differ on the test split, from their concatenated embeddings `[N, D]`; see `diversity`.

    `metrics` are measured for each learner alone. If None, all metrics of the protocol are.
    """
    test, while_training = experiment.splits.test, experiment.splits.protocol.while_training
    return diversity(
        embeddings,
        test.labels,
        count,
        measure=lambda each: experiment.measure(each, test, metrics),
        # Without k-means, which would take longer than everything else.
        measure_together=lambda each: experiment.measure(each, test, while_training),
        weights=weights,
    )


def write_projector(experiment, embeddings, run, learners=1, clusters=None):
    """Writes the test embeddings, with the embeddings of all `learners` concatenated, for the TensorBoard projector."""
    test = experiment.splits.test
    projector = Projector(
        run.tensorboard,
        None,
        test.labels,
        thumbnail=lambda row: pictures[np.searchsorted(rows, row)],
        class_names=test.class_names,
        seed=experiment.settings.run.seed,
        learners=learners,
        names=[test.name_of(row) for row in range(len(test))],
        clusters=clusters,
    )
    rows = projector.rows
    pictures = thumbnails(test, rows, THUMBNAIL)
    projector.write(embeddings)


def run_tables(result):
    """Returns the tables of a run's result: they map titles to rows, which map names of models to metrics.

    If validation classes selected the best model, their table is the first of two.
    """
    selected_on, best = result["selected_on"], result["best"]
    share = f", blend: {best['blend']:.0%} trained" if "blend" in best else ""
    names = f"best on {selected_on} (step {best['step']}{share})", f"final (step {result['step']})"
    # The table of the test set needs no title if it is the only one.
    splits = {selected_on: result[selected_on], "test": result} if selected_on in result else {"": result}
    tables = {}
    for title, scores in splits.items():
        rows = {**scores, **scores.get("baselines", {})}
        kinds = [kind for kind in ("features", *rows.get("baselines", ()), "untrained") if kind in rows]
        before = {BEFORE_TRAINING.get(kind, kind): rows[kind] for kind in kinds}
        tables[title] = {**before, **dict(zip(names, (scores["best"], scores["metrics"]), strict=True))}
        if "teacher" in scores:
            tables[title]["teacher"] = scores["teacher"]
    return tables
