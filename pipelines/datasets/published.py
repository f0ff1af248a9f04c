"""Published datasets on the user's disk: finds their files, or says how to get them."""

import dataclasses
import logging
import shlex
from pathlib import Path

from pipelines.datasets.archives import archive_of, unpack


@dataclasses.dataclass(frozen=True)
class Published:
    """Describes a dataset as its authors publish it.

    Args:
        name: the name it is registered by.
        page: address of its page.
        folder: name of its folder, which `--data_dir` is or holds.
        layouts: the layouts in which it exists; each a tuple of paths below the folder, all needed.
        archives: path of each archive to the path that it produces, in the same folder.
    """

    name: str
    page: str
    folder: str
    layouts: tuple
    archives: dict

    def find(self, data_dir):
        """Returns its folder and layout, `(path, layout)`, after unpacking archives if needed."""
        if not data_dir:
            raise ValueError(
                f"The dataset {self.name!r} needs data_dir, in a command --data_dir. {self._expected('FOLDER')}"
            )
        data_dir = Path(data_dir).expanduser()
        if data_dir.is_file():
            # The archive itself.
            data_dir = data_dir.parent
        found = self._whole(data_dir) or self._unpacked(data_dir)
        if found is None:
            raise FileNotFoundError(
                f"The dataset {self.name!r} is not in {data_dir}: {self._lacking(data_dir)}. {self._expected(data_dir)}"
            )
        return found

    def check_counts(self, part, split, *, images, classes):
        """Warns if the numbers of images and classes of a part differ from the published ones."""
        if (len(split), split.num_classes) != (images, classes):
            logging.getLogger(__name__).warning(
                "%s, %s: %s images of %s classes here, %s images of %s classes as published. Scores are comparable "
                "with published ones only on the full set.",
                self.name,
                part,
                *(f"{number:,}" for number in (len(split), split.num_classes, images, classes)),
            )

    def _places(self, data_dir):
        return [data_dir, data_dir / self.folder]

    def _whole(self, data_dir):
        for folder in self._places(data_dir):
            for layout in self.layouts:
                if all((folder / path).exists() for path in layout):
                    return folder, layout
        return None

    def _unpacked(self, data_dir):
        """Unpacks archives until a layout is complete, and returns `(path, layout)`, or None."""
        for folder in self._places(data_dir):
            for name, produces in self.archives.items():
                archive = archive_of(folder / name)
                if archive and not (folder / produces).exists():
                    unpack(archive, folder / produces)
                    if found := self._whole(data_dir):
                        return found
        return None

    def _lacking(self, data_dir):
        """Names the files that are missing from the layout that is nearest to complete."""
        if not data_dir.is_dir():
            return f"there is no folder {data_dir}"
        tried = [(folder, layout) for folder in self._places(data_dir) for layout in self.layouts]
        missing = [[str(folder / path) for path in layout if not (folder / path).exists()] for folder, layout in tried]
        counts = [len(lacking) / len(layout) for lacking, (_, layout) in zip(missing, tried, strict=True)]
        # If nothing is there at all: the folder as its authors name it.
        best = counts.index(min(counts)) if min(counts) < 1 else len(self.layouts)
        return f"there is no {', no '.join(missing[best])}"

    def _expected(self, data_dir):
        layouts = "; or ".join(", ".join(layout) for layout in self.layouts)
        return (
            f"Get it from {self.page} and put its folder {self.folder} there, with {layouts}; or its archives, "
            f"which are then unpacked: {', '.join(self.archives)}. Then check it: "
            f"python -m pipelines.check --dataset={self.name} --data_dir={shlex.quote(str(data_dir))}"
        )
