"""The studies that a page takes its numbers from."""

from benchmarks.pages.catalog import SOURCES


class Studies:
    """The studies of a page, one of which is selected at a time.

    Args:
        recorded_of: Function from the name of a source to its `Recorded` study.
        selected: Name of the source that is selected first.
    """

    def __init__(self, recorded_of, selected=""):
        self._recorded_of, self._selected = recorded_of, selected

    def select(self, name):
        """Selects the source for what follows."""
        if name not in SOURCES:
            raise ValueError(f"The sources are {', '.join(SOURCES)}. Received: {name!r}.")
        self._selected = name

    @property
    def selected(self):
        """The `Recorded` study of the selected source."""
        if not self._selected:
            raise ValueError("The page has no paragraph `{study: NAME}` before its first number.")
        return self._recorded_of(self._selected)

    def of(self, text, source=""):
        """Returns the `Recorded` study of a text and the text without the name of its source.

        Args:
            text: Arguments of a marker or names of rows. They may start with `SOURCE/`.
            source: The source if they do not. If empty, the selected one.
        """
        name, slash, rest = text.partition("/")
        if slash and name in SOURCES:
            return self._recorded_of(name), rest
        return self._recorded_of(source) if source else self.selected, text
