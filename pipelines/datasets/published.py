"""Published datasets on the user's disk: where their files are, and what to say when they are not there."""

import dataclasses
import shlex
from pathlib import Path

from absl import logging

from pipelines.datasets.archives import archive_of, unpack


@dataclasses.dataclass(frozen=True)
class Published:
    """A dataset as its authors give it out.

    Args:
        name: the name it is registered by.
        page: address of the page that gives it out.
        folder: name of its folder, which `--data_dir` is or holds.
        layouts: one or several ways in which it is found; each a tuple of paths below the folder, all needed.
        archives: paths of archives below the folder that holds them, each to what it produces there.
    """

    name: str
    page: str
    folder: str
    layouts: tuple
    archives: dict

    def find(self, data_dir):
        """Its folder and the layout that is there, `(path, layout)`; archives are unpacked where it takes that."""
        if not data_dir:
            raise ValueError(f"The dataset {self.name!r} needs --data_dir. {self._expected('FOLDER')}")
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
        """Warns where a part has other numbers of images and classes than the published one."""
        if (len(split), split.num_classes) != (images, classes):
            logging.warning(
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
        """What is whole after unpacking archives, as few as that takes."""
        for folder in self._places(data_dir):
            for name, produces in self.archives.items():
                archive = archive_of(folder / name)
                if archive and not (folder / produces).exists():
                    unpack(archive, folder / produces)
                    if found := self._whole(data_dir):
                        return found
        return None

    def _lacking(self, data_dir):
        """What is missing where most is there."""
        if not data_dir.is_dir():
            return f"there is no folder {data_dir}"
        tried = [(folder, layout) for folder in self._places(data_dir) for layout in self.layouts]
        missing = [[str(folder / path) for path in layout if not (folder / path).exists()] for folder, layout in tried]
        counts = [len(lacking) / len(layout) for lacking, (_, layout) in zip(missing, tried, strict=True)]
        # Where nothing is there at all, the folder as its authors name it is the one to tell of.
        best = counts.index(min(counts)) if min(counts) < 1 else len(self.layouts)
        return f"there is no {', no '.join(missing[best])}"

    def _expected(self, data_dir):
        layouts = "; or ".join(", ".join(layout) for layout in self.layouts)
        return (
            f"Get it from {self.page} and put its folder {self.folder} there, with {layouts}; or its archives, "
            f"which are then unpacked: {', '.join(self.archives)}. Then check it: "
            f"python -m pipelines.check --dataset={self.name} --data_dir={shlex.quote(str(data_dir))}"
        )
