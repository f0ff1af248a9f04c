"""The result of a run, and the files written at its end."""

import numpy as np

from pipelines.images.decoding import thumbnails
from tfdml.callbacks import Projector
from tfdml.evaluation import cost, diversity
from tfdml.evaluation.evaluate import breakdown
from tfdml.evaluation.statistics import class_intervals
from tfdml.methods import Features
from tfdml.run.directory.model_files import load_best, save_best, save_model
from tfdml.run.experiment.judged_images import clusters_of
from tfdml.run.training.gain import Blend, baselines_of, between, gain_of, set_aside
from tfdml.run.training.model import initial_embedding, is_pretrained

# Side of the projector's pictures, pixels.
THUMBNAIL = 48


def result_of(experiment, run, model, evaluation, step, build_untrained, assignment=None):
    """Measures the untrained, the best and the final model on the test split, and writes the final files.

    The model may have the weights of the best one afterwards.

    Args:
        experiment: `Experiment`.
        run: `RunDirectory`, with the best model in it.
        model: the final model.
        evaluation: `RetrievalEvaluation` that watched it.
        step: number of steps taken.
        build_untrained: function that makes the model as it was before training, but for its initial embedding.
        assignment: the cluster of each training image; None where there are none.
    """
    selected_on, test = experiment.settings.evaluation.evaluate_on, experiment.splits.test
    embeddings = evaluation.embeddings
    if selected_on != "test" or embeddings is None or evaluation.history[-1]["step"] != step:
        embeddings = experiment.embed(model, test)
    final = experiment.measure(embeddings, test)
    shown = experiment.settings.evaluation.projector
    # All workers embed.
    clusters = clusters_of(embeddings, experiment, model, experiment.splits.train, assignment) if shown else None
    if experiment.chief:
        save_model(model, run.final_model)
        if shown:
            write_projector(experiment, embeddings, run, model.learner_count, clusters)
    pretrained = is_pretrained(experiment.settings, model.backbone)
    blends = pretrained and experiment.settings.optimization.blend
    begun = build_untrained() if pretrained or selected_on != "test" else None
    bare = _features_alone(experiment, begun) if pretrained else None
    tested = experiment.embed(bare, test) if pretrained else None
    features = experiment.scores(tested, test) if pretrained else None
    baselines = baselines_of(experiment, bare, tested) if pretrained else {}
    chosen = {}
    if blends or selected_on != "test":
        for initial in initial_embedding(
            experiment, begun, on_choice=lambda kind, recalls: chosen.update(kind=kind, recall_at_1=recalls)
        ):
            initial.apply(begun)
    if selected_on == "test":
        untrained, watched = evaluation.history[0]["metrics"], {}
    else:
        watched = {selected_on: _watched(experiment, model, evaluation, step)}
        if pretrained:
            split, metrics = experiment.splits.evaluation, experiment.splits.protocol.while_training
            watched[selected_on]["features"] = experiment.measure(experiment.embed(bare, split), split, metrics)
        untrained = experiment.measure(experiment.embed(begun, test), test)
    blend = _blend(experiment, run, model, begun, evaluation) if blends else None
    if blend:
        for selected in watched.values():
            selected["best"] = blend.metrics
    elif evaluation.best["step"] != step:
        load_best(model, run)
    if blend or evaluation.best["step"] != step:
        embeddings = experiment.embed(model, test)
    best = experiment.scores(embeddings, test)
    index = experiment.splits.protocol.index
    return {
        **({"index": repr(index)} if index.is_approximate else {}),
        **({"features": features.summary()} if features else {}),
        **baselines,
        **({"initial_embedding": chosen} if chosen else {}),
        "untrained": untrained,
        "metrics": final,
        "best": {
            **best.summary(),
            **({"step": step, "blend": blend.share} if blend else {"step": evaluation.best["step"]}),
            "selected_on": selected_on,
            "selected_by": evaluation.monitor,
        },
        **breakdown(best, embeddings, test, experiment.splits.protocol.distance),
        **({"intervals": intervals} if (intervals := class_intervals(best, test.labels)) else {}),
        **({"gain": gain_of(features, best, test.labels, evaluation.monitor)} if features else {}),
        **watched,
        "selected_on": selected_on,
        "step": step,
        **learners_of(experiment, model, embeddings, model.learner_count),
    }


def _blend(experiment, run, model, begun, evaluation):
    """Gives a model, and the file of the best one, the best `Blend`, and returns it; None if a step's is as good."""
    first, monitor = begun.get_weights(), evaluation.monitor
    blend = Blend.best(experiment, model, first, monitor)
    if blend.metrics[monitor] <= evaluation.best["metrics"][monitor]:
        return None
    model.set_weights(between(first, model.get_weights(), blend.share))
    if experiment.chief:
        set_aside(run)
        save_best(model, run)
    return blend


def _features_alone(experiment, model):
    """Returns a model of the pooled features of a model's backbone."""
    with experiment.strategy.scope():
        return Features(model.backbone)


def _watched(experiment, model, evaluation, step):
    """Returns the metrics of the final, the best and the untrained model on the split evaluated while training."""
    last, split, protocol = evaluation.history[-1], experiment.splits.evaluation, experiment.splits.protocol
    if last["step"] == step:
        final = last["metrics"]
    else:
        final = experiment.measure(experiment.embed(model, split), split, protocol.while_training)
    return {"metrics": final, "best": evaluation.best["metrics"], "untrained": evaluation.history[0]["metrics"]}


def learners_of(experiment, model, embeddings, count):
    """Measures how `count` learners of a model differ on the test split, and their cost; of one, an ensemble's cost.

    Args:
        experiment: `Experiment`.
        model: the model.
        embeddings: its embeddings `[N, D]` of the test split.
        count: number of learners.
    """
    one_learner = model.of_one_learner()
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
    """Measures how learners differ on the test split, see `tfdml.evaluation.diversity`.

    Args:
        experiment: `Experiment`.
        embeddings: `[N, D]` of the test split.
        count: number of learners.
        metrics: the metrics of each learner alone; None: all of the protocol.
        weights: of the learners together, see `tfdml.evaluation.diversity`; None: all alike.
    """
    test, while_training = experiment.splits.test, experiment.splits.protocol.while_training
    return diversity(
        embeddings,
        test.labels,
        count,
        measure=lambda each: experiment.measure(each, test, metrics),
        # K-means of all of them would take longer than the rest.
        measure_together=lambda each: experiment.measure(each, test, while_training),
        weights=weights,
    )


def write_projector(experiment, embeddings, run, learners=1, clusters=None):
    """Writes the test split's embeddings for TensorBoard.

    Args:
        experiment: `Experiment`.
        embeddings: `[N, D]`, of `learners` side by side.
        run: `RunDirectory`.
        learners: number of learners.
        clusters: the cluster of each test image, or None.
    """
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
    """Returns the tables of a run: title to rows, which are name to metrics.

    Where other classes than those of the test chose the best model, their table is the first of two.

    Args:
        result: what `result.json` holds.
    """
    selected_on, best = result["selected_on"], result["best"]
    share = f", blend {best['blend']}" if "blend" in best else ""
    names = f"best on {selected_on} (step {best['step']}{share})", f"final (step {result['step']})"
    # Of the test alone it needs no name.
    parts = {selected_on: result[selected_on], "test": result} if selected_on in result else {"": result}
    tables = {}
    for title, scores in parts.items():
        rows = {**scores, **scores.get("baselines", {})}
        before = {name: rows[name] for name in ("features", *rows.get("baselines", ()), "untrained") if name in rows}
        tables[title] = {**before, **dict(zip(names, (scores["best"], scores["metrics"]), strict=True))}
    return tables
