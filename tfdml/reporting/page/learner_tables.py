"""Tables of learners: each alone, the first ones together, and what they cost."""

from tfdml.reporting.page.elements import element, joined, table
from tfdml.reporting.page.metric_tables import is_score, number, titled


def learners_tables(learners, names=None, cost=None):
    """Returns how the learners of a run differ, and their cost; None of a run with one learner.

    Args:
        learners: what `tfdml.evaluation.diversity` returns, or None.
        names: names of the learners; None: their numbers.
        cost: `{"parameters": ..., "multiply_adds": ...}` of the model, or None.
    """
    if learners is None:
        return None
    alone, first = learners["alone"], learners["first"]
    columns = [name for name in alone[0] if is_score(name, alone[0])]
    monitor = columns[0]
    head = ["Learner", *map(titled, columns), f"{titled(monitor)} with all before it", "Right alone"]
    rows = [
        [name, *(number(alone[k][column]) for column in columns), number(first[k][monitor]), learners["only_one"][k]]
        for k, name in enumerate(names or range(len(alone)))
    ]
    caption = (
        f"The mean absolute correlation of dimensions of different learners is {learners['correlation']:.3f}. "
        "“Right alone” counts the images that only this learner gets right."
    )
    costs = element("p", _cost(cost)) if cost else None
    return joined(table(head, rows, "Each learner alone", class_="numbers"), element("p", caption), costs)


def _cost(cost):
    adds = "" if cost["multiply_adds"] is None else f" and takes {cost['multiply_adds']:,} multiply-adds for an image"
    return f"The model has {cost['parameters']:,} parameters{adds}."
