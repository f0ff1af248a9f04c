"""Images to embed: from a folder, a pattern, a list, a table or a dataset."""

import dataclasses
import glob
import hashlib
import io
import json
import os
import re
from pathlib import Path

import numpy as np

from pipelines.checks import ENDING_OF
from pipelines.datasets import load
from pipelines.datasets.folder import ENDINGS, is_other_image, tell_of_others
from pipelines.datasets.loading import check_names
from pipelines.datasets.photos import check_links
from pipelines.images.decoding import MOST_BYTES
from pipelines.labels import read_table
from pipelines.preprocessing import why_no_pixels
from pipelines.reading.sources import listed
from pipelines.stored import PackedImages, local, refuse_vectors
from tfdml import registry
from tfdml.files.shards import is_of_texts, read_columns, values_of


def read_image_table(file):
    """Returns paths and labels, `None` if an image has none, of a table whose name ends in `.csv` or `.parquet`."""
    paths, labels = (_of_csv if Path(file).suffix == ".csv" else _of_parquet)(file)
    missing = next((row for row, path in enumerate(paths) if not path), None)
    if missing is not None:
        raise ValueError(f"{file}: row {missing} of the images has no path.")
    return paths, [None if label in (None, "") else str(label) for label in labels]


def _of_csv(file):
    _, rows = read_table(file, lambda header: _check(file, header))
    return [row["path"] for row, _ in rows], [row.get("label") for row, _ in rows]


def _of_parquet(file):
    try:
        found = read_columns(file, ("path", "label"), check=lambda names: _check("it", names))
        if not is_of_texts(found["path"]):
            raise ValueError(f"expected a column path of texts, received type {found['path'].type}")
        paths = values_of(found["path"])
        return paths, values_of(found["label"]) if "label" in found.column_names else [None] * len(paths)
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read: {error}.") from error


def _check(file, header):
    if "path" not in header or len(set(header)) < len(header):
        raise ValueError(f"{file} has the columns {header}; expected path and, for labels, label, each once.")


SPEC = re.compile(r"\w+(\(.*\))?", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class ImageList:
    """Images and their labels, `None` if an image has none.

    Paths are absolute; of a dataset in memory they are names that no other image has. Contents, of such a dataset, are
    an object array of the contents of the files, or `PackedImages`.
    """

    paths: list
    labels: list
    contents: np.ndarray | PackedImages | None = None

    def __len__(self):
        return len(self.paths)

    def digest(self):
        """Returns the SHA-256 of paths, labels and, of images in memory, contents; of packed ones, checksums."""
        found, packed = hashlib.sha256(), isinstance(self.contents, PackedImages)
        for row, pair in enumerate(zip(self.paths, self.labels, strict=True)):
            found.update(json.dumps(pair).encode())
            if self.contents is not None and not packed:
                found.update(hashlib.sha256(self.contents[row]).digest())
        if packed:
            found.update(self.contents.fingerprints().tobytes())
        return found.hexdigest()

    @classmethod
    def of(cls, source, *, data_dir="", split="test"):
        """Lists images of a source, and of the `train` or `test` split of a dataset.

        The source is a folder, which is searched with all its folders; a pattern such as `photos/**/*.jpg`; a CSV or
        Parquet file with the column path, and perhaps label; a text file with a path in each line, and perhaps a tab
        and a label; or the spec of a dataset. In a folder, the label is the name of the folder that an image is in, but
        for the first; the first one of a pattern is the last that it names in full. Paths in files are relative to the
        working folder.
        """
        if Path(source).is_dir():
            found = cls._of_folder(Path(source))
        elif Path(source).is_file():
            found = cls._of_file(Path(source))
        elif not cls.is_dataset(source):
            found = cls._of_pattern(str(source))
        elif source.partition("(")[0] in registry.names("dataset"):
            found = cls._of_dataset(source, data_dir, split)
        else:
            raise FileNotFoundError(f"{source}: no such folder or file, and no dataset of that name.")
        # Parquet files cannot have other names.
        check_names(found.paths)
        return found

    @classmethod
    def of_images(cls, images):
        """Lists the images of a folder, of paths, or of others that `Searcher.search` takes, whose contents it has."""
        if isinstance(images, str | os.PathLike) and os.path.isdir(images):
            return cls.of(images)
        images = listed(images)
        are_paths = [isinstance(image, str | os.PathLike) for image in images]
        names = [
            os.path.abspath(image) if is_path else f"Image {place}"
            for place, (image, is_path) in enumerate(zip(images, are_paths, strict=True))
        ]
        if all(are_paths):
            return cls(names, [None] * len(names))
        contents = np.empty(len(names), object)
        contents[:] = [contents_of(image, place) for place, image in enumerate(images)]
        return cls(names, [None] * len(names), contents)

    @staticmethod
    def is_dataset(source):
        """Whether `of` takes a source for the spec of a dataset, and not for files."""
        is_pattern = glob.has_magic(str(source)) and not SPEC.fullmatch(str(source))
        return not (is_pattern or Path(source).is_dir() or Path(source).is_file())

    def read(self, row):
        """Returns the contents of a file; raises an OSError if that is not possible."""
        if self.contents is not None:
            try:
                return self.contents[row]
            except ValueError as error:
                # A shard that cannot be read at all says nothing about this image.
                if error.__cause__:
                    raise
                raise OSError(str(error)) from None
        path = Path(self.paths[row])
        if not path.is_file():
            raise FileNotFoundError("the file does not exist" if not path.exists() else "it is no file")
        if path.stat().st_size > MOST_BYTES:
            raise OSError(f"the file has more than {MOST_BYTES:,} bytes")
        return path.read_bytes()

    def part(self, rows):
        """Returns the `ImageList` of a range of rows."""
        chosen = slice(rows.start, rows.stop)
        contents = None if self.contents is None else self.contents[chosen]
        return ImageList(self.paths[chosen], self.labels[chosen], contents)

    @classmethod
    def _of_folder(cls, root):
        root = Path(os.path.abspath(root))
        files = sorted(root.rglob("*"))
        files = [path for path in files if not any(part.startswith(".") for part in path.relative_to(root).parts)]
        found = _images_among(files)
        if not found:
            raise ValueError(f"{root} has no images: no file in it ends in {', '.join(ENDINGS)}.")
        return cls._below(root, found)

    @classmethod
    def _of_pattern(cls, pattern):
        parts = Path(os.path.normpath(pattern)).parts
        named = [glob.has_magic(part) for part in parts].index(True)
        root = Path(os.path.abspath(os.path.join("", *parts[:named])))
        if "**" in parts:
            check_links(root)
        # A name that the working folder has is no pattern; with ** twice a file is found more than once.
        files = glob.glob(os.path.join(glob.escape(str(root)), *parts[named:]), recursive=True)
        found = _images_among(sorted(set(map(Path, files))))
        if not found:
            raise ValueError(f"--images={pattern} finds no images: no file that ends in {', '.join(ENDINGS)}.")
        return cls._below(root, found)

    @classmethod
    def _below(cls, root, found):
        return cls(list(map(str, found)), [None if path.parent == root else path.parent.name for path in found])

    @classmethod
    def _of_file(cls, file):
        if file.suffix in (".csv", ".parquet"):
            return cls._of_pairs(file, zip(*read_image_table(file), strict=True))
        try:
            lines = [line for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        except UnicodeDecodeError:
            raise ValueError(f"{file} is no list of images: expected a text file with a path in each line.") from None
        return cls._of_pairs(file, (line.partition("\t")[::2] for line in lines))

    @classmethod
    def _of_pairs(cls, file, pairs):
        pairs = list(pairs)
        # As in a shell, paths are relative to the working folder.
        paths = [os.path.abspath(local(path, f"{file}: ")) for path, _ in pairs]
        if not paths or len(set(paths)) < len(paths):
            raise ValueError(f"{file} lists {'an image twice' if paths else 'no image'}.")
        return cls(paths, [label or None for _, label in pairs])

    @classmethod
    def _of_dataset(cls, spec, data_dir, part):
        dataset = load(spec, data_dir=data_dir or None, test_only=part == "test")
        refuse_vectors(dataset, f"--images={spec}")
        split = dataset.splits().get(part)
        if split is None:
            raise ValueError(f"--images={spec} has no split {part!r}.")
        if split.boxes is not None:
            raise ValueError(f"--images={spec} crops images to boxes, and exported models take whole ones.")
        labels = list(map(split.class_name, split.labels.tolist()))
        if not split.encoded:
            return cls([os.path.abspath(path) for path in split.images], labels)
        # Records are far more than names: none is read for the ending of its name.
        heads = [b""] * len(split) if isinstance(split.images, PackedImages) else [each[:2] for each in split.images]
        names = [f"images/{part}-{row:07d}{ENDING_OF.get(head, '')}" for row, head in enumerate(heads)]
        return cls(names, labels, split.images)


def _images_among(paths):
    """Returns the paths of images that are read, and warns of other images."""
    tell_of_others([path for path in paths if is_other_image(path)])
    return [path for path in paths if path.suffix.lower() in ENDINGS]


def contents_of(image, place):
    """Returns the contents of a file for an image: those of its path, or of a PNG with its pixels."""
    if isinstance(image, bytes | bytearray):
        return bytes(image)
    if isinstance(image, str | Path):
        try:
            return ImageList([os.fspath(image)], [None]).read(0)
        except OSError as error:
            raise ValueError(f"{image} cannot be read: {error.strerror or error}.") from None
    pixels = np.asarray(image)
    reason = why_no_pixels(pixels, place)
    if reason:
        raise ValueError(reason)
    if pixels.dtype != np.uint8:
        pixels = np.clip(np.round(pixels), 0, 255).astype(np.uint8)
    from PIL import Image

    file = io.BytesIO()
    # Only for a moment: compressing takes longer than what it saves.
    Image.fromarray(pixels).save(file, "PNG", compress_level=0)
    return file.getvalue()
