"""How much the rows of a study trained: images per learner, visits per class, gains and whether they have learned."""

import ast
import statistics

from benchmarks.studies.columns import share_of_changed
from tfdml.run.study.tables import curves_of, gain_of

# Percentage points. A row is flat if validation gained less in the last quarter of the steps. A row has learned if it
# is at least this far above its initial weights; of an ensemble, its single members are.
FLAT, LEARNED = 1, 2
# Images per item of a sampler: hard pairs consist of two images and a negative for each.
IMAGES_OF = {"pairs": 2, "hard_neighbors": 4, "triplets": 3, "views": 2}


def images_per_batch(sampler):
    """Returns the number of images per batch of a sampler, such as `pxk(classes=8, per_class=4)`."""
    name, given = _call(sampler)
    if name in ("pxk", "proportional_pxk"):
        return given["classes" if name == "pxk" else "groups"] * given["per_class"]
    if name == "uniform":
        return given["batch_size"]
    if name in IMAGES_OF:
        return IMAGES_OF[name] * given["images" if "images" in given else "triplets" if name == "triplets" else "pairs"]
    raise ValueError(f"Expected a sampler of {', '.join(IMAGES_OF)}, pxk, proportional_pxk or uniform: {sampler!r}.")


def images_per_learner(recorded, name):
    """Returns the number of images that each learner of a row trains on, in all steps together."""
    record = recorded.records(name)[0]
    flags = flags_of(record)
    steps = record["result"]["step"]
    method, given = _call(flags["method"])
    if method == "divide_and_conquer" and not given.get("simultaneous"):
        by_learner = (record["result"].get("clusters") or {}).get("steps_of_learners")
        # Steps after a merge train the whole embedding.
        steps = statistics.mean(by_learner) if by_learner else steps / given["learners"]
    return round(steps * images_per_batch(flags["sampler"]))


def visits_per_class(record, classes):
    """Returns how often the run of a record visits each class: steps × classes per batch / classes."""
    _, given = _call(flags_of(record)["sampler"])
    return record["result"]["step"] * given["classes"] / classes


def gain(recorded, name):
    """Returns the gain on validation classes in the last quarter, in percentage points, or None without a curve.

    The gain of an ensemble is the mean over its members.
    """
    runs = zip(recorded.results(name), recorded.run_dirs(name), strict=True)
    curves = [each for result, path in runs for each in curves_of(result, path)]
    return 100 * statistics.mean(map(gain_of, curves)) if all(len(each) > 2 for each in curves) else None


def of_last_models(recorded, name):
    """Returns Recall@1 of the models at the end of a row's runs, in percent."""
    return 100 * statistics.mean(result["metrics"]["recall_at_1"] for result in recorded.results(name))


def learned(recorded, name):
    """Returns Recall@1 of a row minus Recall@1 of its initial weights, in percentage points; see `LEARNED`."""
    which = "best" if recorded.study.which == "best" else "metrics"
    recalls = [
        result["learners"]["mean"]["recall_at_1"] if "members" in result else result[which]["recall_at_1"]
        for result in recorded.results(name)
    ]
    return 100 * (statistics.mean(recalls) - recorded.untrained(name))


def flags_of(record):
    """Returns the flags of a record by name."""
    return {flag.partition("=")[0].removeprefix("--"): flag.partition("=")[2] for flag in record["flags"]}


def _call(text):
    """Returns the name and the arguments of a call such as `pairs(images=32)`."""
    call = ast.parse(text, mode="eval").body
    if isinstance(call, ast.Name):
        return call.id, {}
    return call.func.id, {each.arg: ast.literal_eval(each.value) for each in call.keywords}


def facts_of(recorded, better, control):
    """Returns texts of numbers about two rows, by name, for the deviations in `papers`. Unknown numbers are missing.

    Args:
        recorded: The `Recorded` study.
        better: Name of the first row.
        control: Name of the row that it is compared with.
    """
    first, second = (flags_of(recorded.records(name)[0]) for name in (better, control))
    images, control_images = (images_per_learner(recorded, name) for name in (better, control))
    batch = images_per_batch(second["sampler"])
    start = 100 * (recorded.untrained(control) - recorded.untrained(better))
    # The features behind the branch have a sixteenth of the images' sides.
    side = int(first["image_size"]) // 16
    facts = {
        "images": f"{images:,}",
        "steps": f"{images // images_per_batch(first['sampler']):,}",
        "control_steps": f"{control_images // batch:,}",
        "start": f"{start:.0f}",
        "mask": f"{side} × {side}",
        "rate": f"{rate_of(first):g}",
        "control_rate": f"{rate_of(second):g}",
        # Another image of the batch has the anchor's meta-class with a probability of 1 / K.
        "alone": f"{100 * (1 - 1 / (int(second['meta_classes']) or 1)) ** (batch - 1):.0f}%",
    }
    share = share_of_changed(recorded.results(better))
    return facts if share is None else {**facts, "changed": f"{100 * share:.0f}%"}


def rate_of(flags):
    """Returns the learning rate of a run with these flags."""
    _, given = _call(flags["optimizer"])
    return given["learning_rate"]
