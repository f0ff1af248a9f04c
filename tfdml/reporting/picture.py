"""`Picture`: the base class of the pictures of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tfdml.registry.fields import Declared
from tfdml.reporting.subject import Subject


class Picture(Declared):
    """A picture of a run, or several that belong together; `@register("picture", name)` names it for `--only`.

    The first line of a subclass's docstring is the caption of the file of its name. Its arguments are fields, as those
    of a loss.

    Attributes:
        captions: captions of further files, by their names without the ending.
        place: where on the page it is; smaller numbers come first.
        of: which runs have it, in words.
        if_named: whether it is drawn only where `--only` names it.
        on_page: whether the page shows it; the page has some in its own way.
    """

    captions: ClassVar[Mapping[str, str]] = {}
    place: ClassVar[int] = 100
    of: ClassVar[str] = "all runs"
    if_named: ClassVar[bool] = False
    on_page: ClassVar[bool] = True

    def can_be_drawn(self, subject: Subject) -> bool:
        """Whether a run has it.

        Args:
            subject: `Subject`.
        """
        return True

    def draw(self, subject: Subject, folder: Path) -> list[Path]:
        """Writes its files, and returns their paths.

        Args:
            subject: `Subject`.
            folder: where they go.
        """
        raise NotImplementedError(f"{type(self).__name__} needs the method draw(subject, folder).")
