"""Lists images to embed from a folder, a pattern, a list, a table or a dataset."""

import dataclasses
import glob
import hashlib
import io
import json
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np

from pipelines.archives import is_archive, read_archives
from pipelines.boxes import (
    COLUMNS,
    BoxError,
    box_of_row,
    box_of_text,
    check_units,
    checked_box,
    cropped,
    cropped_file,
    has_boxes,
    joined_names,
    parted,
    with_box,
)
from pipelines.checks import ENDING_OF
from pipelines.datasets import load
from pipelines.datasets.folder import ENDINGS, is_other_image, tell_of_others
from pipelines.datasets.loading import check_names
from pipelines.datasets.photos import check_links
from pipelines.images.decoding import MOST_BYTES
from pipelines.labels import read_table
from pipelines.preprocessing import why_no_pixels
from pipelines.reading.sources import listed
from pipelines.stored import StoredImages, local, refuse_vectors
from tfdml import registry
from tfdml.files.shards import is_of_texts, read_columns, values_of


def read_image_table(file):
    """Returns the paths, labels and boxes of a `.csv` or `.parquet` table.

    Labels are `None` for images without one. The boxes are `None` if the table has no columns for them.
    """
    columns, place = (_of_csv if Path(file).suffix == ".csv" else _of_parquet)(file)
    missing = next((row for row, path in enumerate(columns["path"]) if not path), None)
    if missing is not None:
        raise ValueError(f"{file}: {place(missing)} has no path. Every image needs one.")
    count, boxes = len(columns["path"]), None
    if has_boxes(columns, file):
        boxes = [
            box_of_row({name: columns[name][row] for name in COLUMNS}, f"{file}, {place(row)}") for row in range(count)
        ]
        check_units(boxes, file)
    labels = [None if label in (None, "") else str(label) for label in columns.get("label", [None] * count)]
    return columns["path"], labels, boxes


def _of_csv(file):
    """Returns the columns of a table, and a function from a row to its place in the file, for errors."""
    header, rows = read_table(file, lambda header: _check(file, header))
    columns = {name: [row[name] for row, _ in rows] for name in ("path", "label", *COLUMNS) if name in header}
    return columns, lambda row: f"line {rows[row][1]}"


def _of_parquet(file):
    try:
        found = read_columns(file, ("path", "label", *COLUMNS), check=lambda names: _check("it", names))
        if not is_of_texts(found["path"]):
            raise ValueError(f"the column path must contain texts, but its type is {found['path'].type}")
        return {name: values_of(found[name]) for name in found.column_names}, lambda row: f"row {row}"
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read: {error}.") from error


def _check(file, header):
    if "path" not in header or len(set(header)) < len(header):
        raise ValueError(
            f"{file} has the columns {header}. Expected one column path and, for labels, one column label."
        )
    has_boxes(header, file)


__all__ = ["ImageList", "box_of_text", "joined_names", "read_image_table", "with_box"]
SPEC = re.compile(r"\w+(\(.*\))?", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class ImageList:
    """Images and their labels. A label is `None` if the image has none.

    Paths are absolute. The name of a part of an image is its path followed by its box; see `with_box`. For a dataset in
    memory, they are unique names instead, and `contents` is an object array of file contents, or `StoredImages`.
    Relative paths of files, see `inside`, are below the folder `root`.
    """

    paths: list
    labels: list
    contents: np.ndarray | StoredImages | None = None
    root: str = ""

    def __len__(self):
        return len(self.paths)

    def digest(self):
        """Returns the SHA-256 of paths and labels, and of the contents (or checksums) of images in memory."""
        found, packed = hashlib.sha256(), isinstance(self.contents, StoredImages)
        for row, pair in enumerate(zip(self.paths, self.labels, strict=True)):
            found.update(json.dumps(pair).encode())
            if self.contents is not None and not packed:
                found.update(hashlib.sha256(self.contents[row]).digest())
        if packed:
            found.update(self.contents.fingerprints().tobytes())
        return found.hexdigest()

    @classmethod
    def of(cls, source, *, data_dir="", split="test"):
        """Lists the images of a source. From a dataset, it lists the `train` or `test` split.

        The source is a folder, which is searched recursively; a pattern such as `photos/**/*.jpg`; a CSV or Parquet
        file with the column `path`, and optionally `label` and the corners `x1,y1,x2,y2` of a box; a text file with one
        path per line, optionally followed by a tab and a label; or a dataset spec. The label of an image is the name of
        the folder that contains it; images directly in the source folder have no label. For a pattern, the last folder
        before the first wildcard is this folder. Paths in files are relative to the working directory. Paths
        and patterns of WebDataset tar files, or of Parquet files with an image column instead of paths, list the images
        in these archives.
        """
        if not cls.is_dataset(source) and is_archive(source):
            found = cls._of_archives(source)
        elif Path(source).is_dir():
            found = cls._of_folder(Path(source))
        elif Path(source).is_file():
            found = cls._of_file(Path(source))
        elif not cls.is_dataset(source):
            found = cls._of_pattern(str(source))
        elif source.partition("(")[0] in registry.names("dataset"):
            found = cls._of_dataset(source, data_dir, split)
        else:
            raise FileNotFoundError(f"{source} is not a folder, a file or the name of a dataset.")
        # Parquet files can only store valid Unicode names.
        check_names(found.paths)
        return found

    @classmethod
    def of_images(cls, images, boxes=None):
        """Lists the images of a folder, paths, or other images that `Searcher.search` accepts, with their contents.

        If `boxes` are not `None`, the images are cropped to them: `[N, 4]`, or `[4]` for a single image.
        """
        if isinstance(images, str | os.PathLike) and os.path.isdir(images):
            if boxes is not None:
                raise ValueError(f"boxes need one image per box. Received: the folder {images}. Pass a list of paths.")
            return cls.of(images)
        images = listed(images)
        if boxes is not None:
            boxes = [boxes] if np.ndim(boxes) == 1 else list(boxes)
            if len(boxes) != len(images):
                raise ValueError(
                    f"boxes must have one box for each of {len(images):,} images. Received: {len(boxes):,}."
                )
            boxes = [checked_box(box, f"Image {place}") for place, box in enumerate(boxes)]
        are_paths = [isinstance(image, str | os.PathLike) for image in images]
        names = [
            os.path.abspath(image) if is_path else f"Image {place}"
            for place, (image, is_path) in enumerate(zip(images, are_paths, strict=True))
        ]
        if all(are_paths):
            names = names if boxes is None else list(map(with_box, names, boxes))
            return cls(names, [None] * len(names))
        contents = [contents_of(image, place) for place, image in enumerate(images)]
        if boxes is not None:
            contents = [_cropped(*each) for each in zip(names, contents, boxes, strict=True)]
        held = np.empty(len(names), object)
        held[:] = contents
        return cls(names, [None] * len(names), held)

    def files(self):
        """Returns the paths of the files of all images, without boxes. Names of images in memory stay as they are."""
        if self.contents is not None:
            return self.paths
        return [os.path.join(self.root, parted(path)[0]) for path in self.paths]

    def inside(self, folder):
        """Returns the list with the names that files have in an index, if the index's folder contains them.

        An index stores images of a dataset in memory in the folder `images`, and names them relative to the index.
        """
        if self.contents is not None:
            return self
        root = os.path.abspath(folder)
        stored = os.path.join(root, "images", "")
        names = [os.path.relpath(path, root) if path.startswith(stored) else path for path in self.paths]
        return dataclasses.replace(self, paths=names, root=root)

    def tiled(self, tiles):
        """Returns the list of the tiles of all images, with boxes from `tile_boxes`."""
        if self.contents is not None or any(parted(path)[1] for path in self.paths):
            raise ValueError("Tiles need whole image files. Received: images in memory, or boxes.")
        rows = [
            (with_box(path, box), label) for path, label in zip(self.paths, self.labels, strict=True) for box in tiles
        ]
        return ImageList(*map(list, zip(*rows, strict=True)))

    @staticmethod
    def is_dataset(source):
        """Returns whether `of` reads a source as a dataset spec and not as files."""
        is_pattern = glob.has_magic(str(source)) and not SPEC.fullmatch(str(source))
        return not (is_pattern or Path(source).is_dir() or Path(source).is_file())

    def read(self, row):
        """Returns the contents of a file. Raises an OSError if it cannot be read."""
        if self.contents is not None:
            try:
                return self.contents[row]
            except ValueError as error:
                # If a whole shard cannot be read, the error does not concern this image.
                if error.__cause__:
                    raise
                raise OSError(str(error)) from None
        name, box = parted(self.paths[row])
        path = Path(self.root, name)
        if not path.is_file():
            raise FileNotFoundError("the file does not exist" if not path.exists() else "it is not a file")
        if path.stat().st_size > MOST_BYTES:
            raise OSError(f"the file has more than {MOST_BYTES:,} bytes")
        if box is None:
            return path.read_bytes()
        try:
            return cropped_file(str(path), box)
        except BoxError as error:
            raise OSError(str(error)) from None

    def part(self, rows):
        """Returns the `ImageList` of a range of rows."""
        chosen = slice(rows.start, rows.stop)
        contents = None if self.contents is None else self.contents[chosen]
        return ImageList(self.paths[chosen], self.labels[chosen], contents, self.root)

    @classmethod
    def _of_folder(cls, root):
        root = Path(os.path.abspath(root))
        files = sorted(root.rglob("*"))
        files = [path for path in files if not any(part.startswith(".") for part in path.relative_to(root).parts)]
        found = _images_among(files)
        if not found:
            archives = sorted({path.suffix for path in files if is_archive(path)})
            hint = f" For images in archives, use a pattern, such as '{root}/*{archives[0]}'." if archives else ""
            raise ValueError(f"{root} contains no images. Expected files that end in {', '.join(ENDINGS)}.{hint}")
        return cls._below(root, found)

    @classmethod
    def _of_pattern(cls, pattern):
        parts = Path(os.path.normpath(pattern)).parts
        named = [glob.has_magic(part) for part in parts].index(True)
        root = Path(os.path.abspath(os.path.join("", *parts[:named])))
        if "**" in parts:
            check_links(root)
        # The working directory may have a wildcard in its name, which is not part of the pattern. With `**` twice, glob
        # finds some files several times.
        files = glob.glob(os.path.join(glob.escape(str(root)), *parts[named:]), recursive=True)
        found = _images_among(sorted(set(map(Path, files))))
        if not found:
            raise ValueError(f"--images={pattern} matches no images. Expected files that end in {', '.join(ENDINGS)}.")
        return cls._below(root, found)

    @classmethod
    def _below(cls, root, found):
        return cls(list(map(str, found)), [None if path.parent == root else path.parent.name for path in found])

    @classmethod
    def _of_file(cls, file):
        if file.suffix in (".csv", ".parquet"):
            paths, labels, boxes = read_image_table(file)
            return cls._of_pairs(file, zip(paths, labels, strict=True), boxes)
        try:
            lines = [line for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        except UnicodeDecodeError:
            raise ValueError(f"{file} is not a list of images. Expected a text file with one path per line.") from None
        return cls._of_pairs(file, (line.partition("\t")[::2] for line in lines))

    @classmethod
    def _of_archives(cls, source):
        images, names, labels = read_archives(source)
        return cls([f"images/{name}" for name in names], labels, images)

    @classmethod
    def _of_pairs(cls, file, pairs, boxes=None):
        pairs = list(pairs)
        # As in a shell, paths are relative to the working directory.
        paths = [os.path.abspath(local(path, f"{file}: ")) for path, _ in pairs]
        if boxes is not None:
            paths = list(map(with_box, paths, boxes))
        if not paths:
            raise ValueError(f"{file} lists no images. Expected one row per image.")
        if len(set(paths)) < len(paths):
            (twice, _), *_ = Counter(paths).most_common(1)
            is_list = file.suffix not in (".csv", ".parquet")
            hint = "" if boxes or is_list else f" For several objects in an image, add the columns {','.join(COLUMNS)}."
            raise ValueError(f"{file} lists {'a box' if boxes else 'an image'} twice: {twice}. Use it once.{hint}")
        return cls(paths, [label or None for _, label in pairs])

    @classmethod
    def _of_dataset(cls, spec, data_dir, part):
        dataset = load(spec, data_dir=data_dir or None, test_only=part == "test")
        refuse_vectors(dataset, f"--images={spec}")
        split = dataset.splits().get(part)
        if split is None:
            raise ValueError(f"--images={spec} has no split {part!r}. Expected {' or '.join(dataset.splits())}.")
        if split.boxes is not None:
            raise ValueError(
                f"--images={spec} crops images to bounding boxes. Pass a table with the columns path,x1,y1,x2,y2 "
                "instead."
            )
        labels = list(map(split.class_name, split.labels.tolist()))
        if not split.encoded:
            return cls([os.path.abspath(path) for path in split.images], labels)
        # Packed records are not read here, because that takes far more time than listing names.
        heads = [b""] * len(split) if isinstance(split.images, StoredImages) else [each[:2] for each in split.images]
        names = [f"images/{part}-{row:07d}{ENDING_OF.get(head, '')}" for row, head in enumerate(heads)]
        return cls(names, labels, split.images)


def _images_among(paths):
    """Returns the paths of images in supported formats, and warns about images in other formats."""
    tell_of_others([path for path in paths if is_other_image(path)])
    return [path for path in paths if path.suffix.lower() in ENDINGS]


def _cropped(name, contents, box):
    """Returns the part of an image inside a box as the contents of a file. Raises a ValueError if it cannot be read."""
    try:
        return cropped(contents, box)
    except (OSError, BoxError) as error:
        raise ValueError(f"{name} cannot be read: {error}.") from None


def contents_of(image, place):
    """Returns the file contents of an image: those at its path, or a PNG of its pixels."""
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
    # The PNG exists only for a moment, so compression would take longer than it saves.
    Image.fromarray(pixels).save(file, "PNG", compress_level=0)
    return file.getvalue()
