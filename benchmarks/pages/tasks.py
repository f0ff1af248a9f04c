"""Tables of docs/distillation.md and docs/pretrained_knowledge.md, from the records of two studies."""

import statistics

from benchmarks.markdown import markdown
from benchmarks.pages.amounts import flags_of, rate_of
from benchmarks.pages.claims import Difference, text_of
from benchmarks.studies.rows import distillation, kept_features


def of_distillation(recorded):
    """Returns a table of each set on which the student was trained alone and with its teacher."""
    rows = []
    for of_set in distillation.SETS:
        alone, dataset = f"{of_set}: {distillation.ALONE}", _capitalized(of_set)
        names = {f"{of_set}: {form}": f"The student with the teacher's {form}" for form in distillation.FORMS}
        taught = [name for name in recorded.rows if name in names]
        if alone not in recorded.rows or not taught:
            continue
        teacher = _mean(result["teacher"] for result in recorded.results(taught[0]))
        own = _mean(result["best"] for result in recorded.results(alone))
        rows.append([dataset, "The teacher", f"{teacher:.1f}%", "", ""])
        rows.append([dataset, "The student alone", f"{own:.1f}%", "", "0%"])
        for name in taught:
            score = _mean(result["best"] for result in recorded.results(name))
            share = f"{100 * (score - own) / (teacher - own):.0f}%"
            rows.append([dataset, names[name], f"{score:.1f}%", _difference(recorded, alone, name), share])
    heads = ["Dataset", "Model", "Recall@1", "Minus the student alone", "Share of the teacher's lead"]
    return markdown(heads, rows)


def of_kept_features(recorded):
    """Returns a table of each set that models were trained on, with their change on the other sets."""
    tables = []
    for of_set in kept_features.CONFIGS:
        initial = f"{of_set}: {kept_features.INITIAL}"
        names = {f"{of_set}: {name}": name for name in kept_features.CHANGES}
        found = [name for name in recorded.rows if name in names]
        if initial not in found:
            continue
        others = [name for name in kept_features.ELSEWHERE if name != of_set]
        rows = []
        for name in found:
            cells = [_cell(recorded, name, other, initial) for other in (of_set, *others)]
            changes = [recorded.difference(initial, name, on=other)[0] for other in others]
            mean = "" if name == initial else f"{statistics.mean(changes):+.1f}"
            rows.append([_model(names[name]), _rate(recorded, name), *cells, mean])
        heads = ["Trained", "Rate", f"{of_set}, new classes", *map(_capitalized, others), "Mean change of both"]
        tables.append(markdown(heads, rows))
    return "\n\n".join(tables)


def _model(name):
    """Returns the words for a row: its penalties as flags, or its name."""
    penalties = [f"`{flag}`" for flag in kept_features.CHANGES[name] if flag.startswith(("--toward", "--anchor"))]
    if penalties:
        return f"All weights, {' '.join(penalties)}"
    return {kept_features.INITIAL: "Nothing", kept_features.AT_RATE: "All weights"}.get(name, _capitalized(name))


def _rate(recorded, name):
    """Returns the learning rate of a row, which only the initial model lacks."""
    return "" if name.endswith(kept_features.INITIAL) else f"{rate_of(flags_of(recorded.records(name)[0])):g}"


def _cell(recorded, name, on, initial):
    """Returns Recall@1 on the test images of a set, with its change from the initial model."""
    score = recorded.cell(name, f"on {on}").partition(" ")[0]
    if name == initial:
        return f"{score}%"
    return f"{score}%: {_difference(recorded, initial, name, on)}"


def _difference(recorded, first, second, on=""):
    return text_of(Difference(*recorded.difference(first, second, on=on)[:3]))


def _mean(scores):
    return 100 * statistics.mean(each["recall_at_1"] for each in scores)


def _capitalized(text):
    return text[:1].upper() + text[1:]


TABLES = {"distillation": of_distillation, "pretrained_knowledge": of_kept_features}
