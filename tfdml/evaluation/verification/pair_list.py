"""Lists of image pairs, and the similarities of these pairs."""

import csv
import dataclasses
import os
from typing import Self

import numpy as np

from tfdml.files.checked import read_bytes, reason_of, text_of
from tfdml.files.embeddings import read_arrays
from tfdml.files.shards import EmbeddingShards

FOLDS = 10
SAME = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclasses.dataclass(frozen=True)
class PairList:
    """Pairs of images, named in a file, and the folds into which they are divided.

    `same` `[P]` are booleans, whether both images are of the same class. `folds` `[P]` is the fold of each pair, and
    `lines` its line in the file.
    """

    path: str
    first: list
    second: list
    same: np.ndarray
    folds: np.ndarray
    lines: list

    @classmethod
    def read(cls, path: str) -> Self:
        """Reads a `.csv` file with the columns `a`, `b` and `same`, or a file in the format of LFW's pairs.txt.

        `same` is 1 or 0. The pairs of a `.csv` file are assigned to 10 folds in turn, separately for each kind of pair.
        """
        try:
            lines = text_of(read_bytes(path)).removeprefix("\ufeff").splitlines()
        except FileNotFoundError:
            raise ValueError(f"--pairs={path} does not exist.") from None
        except ValueError as error:
            raise ValueError(f"{path} cannot be read: {reason_of(error)}.") from None
        rows = list((_of_table if str(path).endswith(".csv") else _of_lfw)(path, lines))
        if not rows:
            raise ValueError(f"{path} does not contain any pairs.")
        first, second, same, folds, numbers = map(list, zip(*rows, strict=True))
        same, folds = np.array(same), np.array(folds)
        for kind, words in ((True, "of the same class"), (False, "of different classes")):
            if len(np.unique(folds[same == kind])) < 2:
                raise ValueError(
                    f"{path} must contain pairs of the same class and of different classes, each kind in at least two "
                    f"folds. Only {np.sum(same == kind)} of {len(same)} pairs are {words}."
                )
        return cls(str(path), first, second, same, folds, numbers)

    @property
    def names(self):
        """The names of all images, each once."""
        return list(dict.fromkeys([*self.first, *self.second]))

    def rows(self, known, where):
        """Returns the rows of both images of each pair, `[P]` each, from a dictionary of name to row.

        `where` names the source of the rows in the error about an unknown name.
        """
        for name_of in (self.first, self.second):
            unknown = [place for place, name in enumerate(name_of) if name not in known]
            if unknown:
                line, name = self.lines[unknown[0]], name_of[unknown[0]]
                raise ValueError(f"{self.path}, line {line}: the image {name!r} is not in {where}.")
        return tuple(np.array([known[name] for name in name_of]) for name_of in (self.first, self.second))


def _of_table(path, lines):
    """Yields the two names, whether they are the same, the fold and the line of each pair of a table."""
    reader = csv.reader(lines, strict=True)
    counts = {True: 0, False: 0}
    try:
        header = [name.strip() for name in next(reader, [])]
        if header != ["a", "b", "same"]:
            raise ValueError(f"{path}, line 1: expected the header a,b,same. Received: {','.join(header)!r}.")
        for row in reader:
            fields = [text.strip() for text in row]
            if not any(fields):
                continue
            if len(fields) != 3 or not all(fields) or fields[2].lower() not in SAME:
                raise _malformed(path, reader.line_num, ",".join(row), "two names and 1 or 0")
            same = SAME[fields[2].lower()]
            counts[same] += 1
            yield fields[0], fields[1], same, (counts[same] - 1) % FOLDS, reader.line_num
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}.") from None


def _of_lfw(path, lines):
    """Yields the same for LFW's format: numbers of folds and of pairs of each kind, then both kinds of each fold."""
    head = lines[0].split() if lines else []
    if not (len(head) in (1, 2) and all(_is_number(each) for each in head)):
        raise _malformed(path, 1, lines[0] if lines else "", "the numbers of folds and of pairs of each kind per fold")
    folds, size = (1, int(head[0])) if len(head) == 1 else map(int, head)
    numbered = [(number, line) for number, line in enumerate(lines[1:], 2) if line.strip()]
    if len(numbered) != 2 * folds * size:
        raise ValueError(f"{path}: line 1 announces {folds} × 2 × {size} pairs, but {len(numbered)} lines follow.")
    # If the file has a single fold, its pairs are divided into 10.
    for place, (number, line) in enumerate(numbered):
        fold, within = divmod(place, 2 * size)
        same, fields = within < size, line.split()
        if len(fields) != 4 - same or not all(_is_number(each) for each in fields[1 :: 2 - same]):
            expected = "a name and two numbers" if same else "a name, a number, a name and a number"
            raise _malformed(path, number, line, expected)
        one, other = (fields[0], fields[1]), ((fields[0], fields[2]) if same else (fields[2], fields[3]))
        part = fold if folds > 1 else within % size % FOLDS
        yield _image_of(*one), _image_of(*other), same, part, number


def _is_number(text):
    return text.isascii() and text.isdigit() and len(text) < 10


def _image_of(name, number):
    return f"{name}/{name}_{int(number):04d}.jpg"


def _malformed(path, number, line, expected):
    return ValueError(f"{path}, line {number}: expected {expected}. Received: {line[:100]!r}.")


# Number of pairs that are compared at once.
AT_ONCE = 8192


def similarities_of_pairs(vectors, one, other, distance="cosine"):
    """Returns the similarity of the rows of each pair, or minus their distance, `[P]` in float64."""
    found = np.empty(len(one))
    for start in range(0, len(one), AT_ONCE):
        pairs = slice(start, start + AT_ONCE)
        first, second = (vectors.vectors[rows[pairs]].astype(np.float64) for rows in (one, other))
        if distance == "cosine":
            found[pairs] = np.einsum("pd,pd->p", first, second)
        else:
            found[pairs] = -vectors.scale * np.linalg.norm(first - second, axis=1)
    return found


def named_embeddings(path):
    """Returns embeddings `[N, d]` and a dictionary from name to row.

    The path is one of: a folder of `python -m tfdml.embed`, with its paths as names; an `.npz` file with `embeddings`
    and `names`; or an `.npz` or `.npy` file without names, where row numbers, starting at 0, are the names.
    """
    if os.path.isdir(path):
        blocks = list(EmbeddingShards(path).blocks())
        if not blocks:
            raise ValueError(f"{path} does not contain any embeddings.")
        names = [name for block in blocks for name in block.paths]
        return np.concatenate([block.embeddings for block in blocks]), _rows(path, names)
    if os.path.splitext(path)[1] not in (".npy", ".npz"):
        raise ValueError(f"{path}: with --pairs, embeddings must be a folder, or a file that ends in .npy or .npz.")
    found = read_arrays(path)
    embeddings = found.get("embeddings")
    if embeddings is None or embeddings.ndim != 2 or embeddings.dtype.kind not in "fiu" or not embeddings.size:
        raise ValueError(f"{path} must contain `embeddings`, numbers of shape [N, d].")
    names = found.get("names", np.arange(len(embeddings)))
    if names.shape != embeddings.shape[:1]:
        raise ValueError(
            f"{path} must contain one name for each of {len(embeddings)} rows. Received: shape {names.shape}."
        )
    names = np.char.decode(names, "utf-8", "replace") if names.dtype.kind == "S" else names
    return embeddings, _rows(path, [str(name) for name in names.tolist()])


def _rows(path, names):
    rows = {name: row for row, name in enumerate(names)}
    if len(rows) < len(names):
        raise ValueError(f"{path}: names must be unique. {len(names) - len(rows)} of {len(names)} are repeated.")
    return rows
