"""Captions of images, which a model with a text tower learns from."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from pipelines.dataset import Split
from pipelines.operations import tf

# Separates the captions of an image in a table, and templates of captions.
SEPARATOR = "|"
PLACE = "{}"
# The template of models that were not trained with templates.
TEMPLATE = "a photo of a {}"


class Captions:
    """The captions of N images, with each different text only once.

    Args:
        captions: Sequence of N sequences of strings, none of them empty.

    Example:

    ```python
    from pipelines.captions import Captions

    captions = Captions([("a red van", "a van"), ("a van",)])
    captions.texts  # ['a red van', 'a van']
    captions.pairs.tolist()  # [[0, 0], [0, 1], [1, 1]]
    ```
    """

    def __init__(self, captions: Sequence[Sequence[str]]):
        counts = np.array([len(each) for each in captions], np.int64)
        numbers = {}
        ids = [numbers.setdefault(text, len(numbers)) for each in captions for text in each]
        self.texts = list(numbers)
        # Rows of images and of texts that belong together.
        self.pairs = np.stack([np.repeat(np.arange(len(captions)), counts), np.array(ids, np.int64)], axis=1)
        self._counts, self._starts = counts, np.cumsum(counts) - counts

    def drawn(self, tokens: np.ndarray) -> Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
        """Returns a function that draws a caption of each image.

        Args:
            tokens: `[M, L]` tokens of the M different texts.

        Returns:
            Function from rows and the positions of these images in the run, of the same shape, to the tokens of a
            caption and its text's number. An image has each of its captions in turn.
        """
        tokens, ids = tf.constant(tokens), tf.constant(self.pairs[:, 1])
        counts, starts, size = tf.constant(self._counts), tf.constant(self._starts), len(self._counts)

        def draw(rows, numbers):
            # Images start with different captions, so that a batch does not only have the first ones.
            turn = (rows + numbers // size) % tf.gather(counts, rows)
            chosen = tf.gather(ids, tf.gather(starts, rows) + turn)
            return tf.gather(tokens, chosen), chosen

        return draw


def with_captions(split: Split, templates: str) -> Split:
    """Returns a split in which the captions of images come from class names.

    Args:
        split: `Split` with class names.
        templates: Templates separated by `|`, each with one `{}` for the name, such as `"a photo of a {}|a {}"`.

    Raises:
        ValueError: If a template does not have exactly one `{}`, or if classes have no names.
    """
    texts = filled(templates, (split.class_names or {}).values())
    if not split.class_names:
        raise ValueError(f"captions={templates!r} needs class names, and this dataset has none.")
    of_class = dict(zip(split.class_names, texts, strict=True))
    return dataclasses.replace(split, captions=as_column(of_class[label] for label in split.labels.tolist()))


def filled(templates: str, names: Iterable[str]) -> list[tuple[str, ...]]:
    """Returns the texts of each class name, one per template.

    Args:
        templates: Templates as in `with_captions`.
        names: Names of classes. Underscores count as spaces.

    Raises:
        ValueError: If a template does not have exactly one `{}`.
    """
    parts = [part.strip() for part in templates.split(SEPARATOR)]
    wrong = next((part for part in parts if part.count(PLACE) != 1), None)
    if wrong is not None:
        raise ValueError(
            f"captions={templates!r} has a template without exactly one {PLACE} for the class name. Expected "
            f"templates such as 'a photo of a {PLACE}', separated by {SEPARATOR}. Received: {wrong!r}."
        )
    return [tuple(part.replace(PLACE, name.replace("_", " ")) for part in parts) for name in names]


def as_column(captions) -> np.ndarray:
    """Returns tuples of strings as an object array `[N]`, as `Split` has them."""
    captions = list(captions)
    column = np.empty(len(captions), object)
    column[:] = captions
    return column
