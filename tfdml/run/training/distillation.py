"""What a student keeps of its teacher, for the result of a run."""

from tfdml.console import scores as shown
from tfdml.evaluation.cost import images_per_second, parameters_of
from tfdml.registry.loss_hooks import TEACHER, hooks_of
from tfdml.runtime.workers import Workers

# The metric that is compared, if the protocol has it.
METRIC = "recall_at_1"


def distillation_of(experiment, references, model, embeddings, best):
    """Returns the entries `teacher` and `distillation` of a result, or nothing without a teacher.

    `embeddings` of the test images are the best model's, and `best` are their `Scores`. The teacher's scores are known
    if its vectors of the test images are.
    """
    if TEACHER not in references.vectors:
        return {}
    test, protocol = experiment.splits.test, experiment.splits.protocol
    about = {name: value for name, value in references.about.items() if name != "path"}
    shape = experiment.images.preprocessing(model).image_shape
    student = {
        "dims": embeddings.shape[1],
        "parameters": parameters_of(model),
        "images_per_second": images_per_second(model, shape),
    }
    costs = {name: {"teacher": about.get(name), "student": value} for name, value in student.items()}
    if references.test is None:
        return {"distillation": costs}
    teacher = experiment.scores(references.test, test)
    metric = METRIC if METRIC in teacher.values else experiment.monitor
    before, after = teacher.values[metric], best.values[metric]
    found = {"metric": metric, "teacher": before, "student": after, "kept": after / before if before else None}
    if hooks_of(model.loss).shares_space and references.test.shape[1] == embeddings.shape[1]:
        found["student_in_teacher"] = protocol.scores_in_gallery(
            embeddings, references.test, test, protocol.while_training, Workers.of(experiment.strategy)
        ).summary()
    return {"teacher": teacher.summary(), "distillation": {**found, **costs}}


def kept_in_words(result):
    """Returns sentences about what a student keeps of its teacher, or an empty text without one."""
    found = result.get("distillation", {})
    if "kept" not in found:
        return ""
    metric, parameters, speed = (found[name] for name in ("metric", "parameters", "images_per_second"))
    before, after = (shown.score(metric, found[name]) for name in (TEACHER, "student"))
    sentence = f"The student has {shown.titled(metric)} {after} on the test set, and its teacher {before}"
    sentences = [f"{sentence}: it keeps {found['kept']:.1%}." if found["kept"] is not None else f"{sentence}."]
    if parameters[TEACHER]:
        share, factor = parameters["student"] / parameters[TEACHER], speed["student"] / speed[TEACHER]
        sentences.append(
            f"It has {parameters['student']:,} parameters, {share:.1%} of the teacher's, and embeds "
            f"{speed['student']:,.0f} images per second here, {factor:.1f} times as many."
        )
    if "student_in_teacher" in found:
        mixed = shown.score(metric, found["student_in_teacher"].get(metric))
        sentences.append(f"Searching the teacher's embeddings with the student's gives {mixed}.")
    return " ".join(sentences)
