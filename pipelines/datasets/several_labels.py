"""Several labels an image: text that a separator divides, as booleans."""

import numpy as np


def several_labels(texts, separator, name_of):
    """Returns `(attributes [N, C], names)`: which labels each image has, and the labels in the order of the columns.

    Args:
        texts: the labels of each image, divided by the separator; spaces around them do not count.
        separator: such as ";".
        name_of: function from the number of an image to what the error calls it.
    """
    each = [list(filter(None, map(str.strip, text.split(separator)))) for text in texts]
    missing = [number for number, labels in enumerate(each) if not labels]
    if missing:
        raise ValueError(
            f"{name_of(missing[0])}: no label, and so for {len(missing)} images. Expected one or more, divided by "
            f"{separator!r}; leave images out of which nothing is known."
        )
    names = sorted({label for labels in each for label in labels})
    columns = {label: column for column, label in enumerate(names)}
    attributes = np.zeros((len(each), len(names)), bool)
    for row, labels in zip(attributes, each, strict=True):
        row[[columns[label] for label in labels]] = True
    return attributes, tuple(names)
