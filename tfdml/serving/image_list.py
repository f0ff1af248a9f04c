"""`ImageList`: images to embed, from a folder, a list or a dataset."""

import dataclasses
import os
from pathlib import Path

import numpy as np

from pipelines.datasets import load
from pipelines.datasets.folder import ENDINGS
from pipelines.images.image_headers import MOST_BYTES

# First bytes of a file to its ending.
KINDS = {b"\xff\xd8": ".jpg", b"\x89P": ".png", b"RI": ".webp"}


@dataclasses.dataclass(frozen=True)
class ImageList:
    """Images and their labels.

    Args:
        paths: list of texts: absolute paths; of a dataset in memory, names that no other image has.
        labels: list of texts, or None where an image has no label.
        contents: object array of the contents of the files, for a dataset in memory; or None.
    """

    paths: list
    labels: list
    contents: np.ndarray | None = None

    def __len__(self):
        return len(self.paths)

    @classmethod
    def of(cls, source, *, data_dir="", split="test"):
        """Lists images.

        Args:
            source: a folder, which is searched with all its folders; a text file with a path in each line, and
                perhaps a tab and a label; or the spec of a dataset. In a folder, the label is the name of the folder
                that an image is in, but for the first.
            data_dir, split: of a dataset, its folder, and `train` or `test`.
        """
        if Path(source).is_dir():
            return cls._of_folder(Path(source))
        if Path(source).is_file():
            return cls._of_lines(Path(source))
        if os.sep in source.partition("(")[0]:
            raise FileNotFoundError(f"--images={source}: no such folder or file.")
        return cls._of_dataset(source, data_dir, split)

    def read(self, row):
        """Returns the contents of a file; raises an OSError if that is not possible."""
        if self.contents is not None:
            return self.contents[row]
        path = Path(self.paths[row])
        if not path.is_file():
            raise FileNotFoundError("the file does not exist" if not path.exists() else "it is no file")
        if path.stat().st_size > MOST_BYTES:
            raise OSError(f"the file has more than {MOST_BYTES:,} bytes")
        return path.read_bytes()

    @classmethod
    def _of_folder(cls, root):
        root = Path(os.path.abspath(root))
        found = sorted(path for path in root.rglob("*") if path.suffix.lower() in ENDINGS)
        found = [path for path in found if not any(part.startswith(".") for part in path.relative_to(root).parts)]
        if not found:
            raise ValueError(f"{root} has no images: no file in it ends in {', '.join(ENDINGS)}.")
        return cls(list(map(str, found)), [None if path.parent == root else path.parent.name for path in found])

    @classmethod
    def _of_lines(cls, file):
        try:
            lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        except UnicodeDecodeError:
            raise ValueError(f"{file} is no list of images: expected a text file with a path in each line.") from None
        pairs = [line.partition("\t")[::2] for line in lines]
        # As in a shell, paths are relative to the working folder.
        paths = [os.path.abspath(path) for path, _ in pairs]
        if not paths or len(set(paths)) < len(paths):
            raise ValueError(f"{file} lists {'an image twice' if paths else 'no image'}.")
        return cls(paths, [label or None for _, label in pairs])

    @classmethod
    def _of_dataset(cls, spec, data_dir, part):
        dataset = load(spec, data_dir=data_dir or None, test_only=part == "test")
        split = dataset.splits().get(part)
        if split is None:
            raise ValueError(f"--images={spec} has no split {part!r}.")
        if split.boxes is not None:
            raise ValueError(
                f"--images={spec}: the dataset crops images to boxes, and exported models take whole ones."
            )
        labels = [(split.class_names or {}).get(label, str(label)) for label in split.labels.tolist()]
        if not split.encoded:
            return cls([os.path.abspath(path) for path in split.images], labels)
        names = [f"images/{part}-{row:07d}{KINDS.get(contents[:2], '')}" for row, contents in enumerate(split.images)]
        return cls(names, labels, split.images)
