"""What a run comes to: its result, and what is written once at its end."""

from pipelines.images import thumbnail
from tfdml.callbacks import Projector
from tfdml.evaluation import cost, diversity
from tfdml.model_files import save_model
from tfdml.preprocessing import image_size_of

# Side of the projector's pictures, pixels.
THUMBNAIL = 48


def result_of(experiment, run, model, evaluation, progress):
    """What the untrained, the best and the final model reach on the test split; writes what is left to write."""
    selected_on, step = experiment.settings.evaluate_on, progress.step
    if selected_on == "test":
        untrained, best, last = evaluation.history[0], evaluation.best, evaluation.history[-1]
        measured = [untrained["metrics"], best["metrics"]]
        final = last["metrics"] if last["step"] == step else experiment.measure(model, experiment.test)
    else:
        final = experiment.measure(model, experiment.test)
        other = experiment.build_model()
        measured = [experiment.measure(other, experiment.test)]
        other.load_weights(run.model)
        measured.append(experiment.measure(other, experiment.test))
    learners = learners_of(experiment, model, model.learner_count)
    if experiment.chief:
        save_model(model, run.final_model)
        if experiment.settings.projector:
            write_projector(experiment, model, run)
    return {
        "metrics": final,
        "best": {**measured[1], "step": evaluation.best["step"], "selected_on": selected_on},
        "untrained": measured[0],
        "selected_on": selected_on,
        "step": step,
        "seconds": round(progress.seconds, 1),
        **learners,
        **experiment.findings(),
    }


def learners_of(experiment, model, count):
    """How `count` learners of a model differ on the test split, and what they cost; of one only an ensemble's cost."""
    test, is_ensemble = experiment.test, hasattr(model, "of_one_learner")
    if not experiment.chief or (count == 1 and not is_ensemble):
        return {}
    size = image_size_of(getattr(model, "backbone", None), experiment.settings.image_size)
    costs = cost(model, (size, size, 3))
    if count == 1:
        return {"cost": costs}
    if is_ensemble:
        costs["one_learner"] = cost(model.of_one_learner(), (size, size, 3))
    found = diversity(experiment.embed(model, test), test.labels, count, lambda each: experiment.protocol(each, test))
    return {"learners": found, "cost": costs}


def write_projector(experiment, model, run):
    """The test split's embeddings for TensorBoard."""
    test = experiment.test
    projector = Projector(
        run.tensorboard,
        experiment.evaluation_data(model, test),
        test.labels,
        thumbnail=lambda row: thumbnail(test, row, side=THUMBNAIL),
        class_names=test.class_names,
        seed=experiment.settings.seed,
    )
    projector.set_model(model)
    projector.on_train_end()


def print_result(result, run):
    """Prints the table of a run and where it is."""
    rows = [
        ("untrained", result["untrained"]),
        (f"best on {result['selected_on']} (step {result['best']['step']})", result["best"]),
        (f"final (step {result['step']})", result["metrics"]),
    ]
    width = max(len(name) for name, _ in rows)
    shown = {name.replace("recall_at_", "Recall@"): name for name in result["metrics"] if name.startswith("recall_at_")}
    print(f"\n{'':{width}}  " + "  ".join(f"{title:>8}" for title in shown))
    for name, metrics in rows:
        print(
            f"{name:{width}}  " + "  ".join(f"{metrics[key]:{max(len(title), 8)}.3f}" for title, key in shown.items())
        )
    print(f"\nRun directory: {run.path}")
