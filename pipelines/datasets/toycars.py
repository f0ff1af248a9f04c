"""Toy cars: a procedural substitute for Cars196, rendered once and then read from a cache file."""

import contextlib
import hashlib
import io
import logging
import math
import os
import uuid
from typing import Annotated, NamedTuple

import numpy as np

from pipelines.captions import as_column
from pipelines.dataset import Dataset, Split
from pipelines.datasets.loading import cache_folder
from pipelines.datasets.toycars_drawing import BODIES, PARTS, color_name, random_paint, render
from tfdml.console.progress_bar import ProgressBar
from tfdml.files.checked import read_bytes
from tfdml.registry import register
from tfdml.registry.arguments import MOST_SIDE, Count, FilePath, Seed, integer

# The parts that distinguish the classes of a body type. Its other parts vary from image to image.
DECIDING_PARTS = {
    "sedan": ("wheels", "roof"),
    "hatchback": ("taillight", "decal"),
    "wagon": ("wheels", "decal"),
    "suv": ("headlight", "taillight", "bumper"),
    "pickup": ("roof", "decal"),
    "van": ("roof", "windows"),
    "coupe": ("wheels", "windows"),
    "bus": ("windows", "decal"),
}
MOST_CLASSES = len(DECIDING_PARTS) * min(
    math.prod(len(PARTS[part]) for part in parts) for parts in DECIDING_PARTS.values()
)


def grouped_designs(make, classes, seed):
    """Draws the same number of designs for each body type, grouped by body type in each half of the classes.

    Parts that vary from image to image are None. `make` creates a design from its `body` and its parts by name. There
    are at most `MOST_CLASSES` classes.
    """
    rng = np.random.default_rng(seed)
    rounds = math.ceil(classes / len(DECIDING_PARTS))
    of_body = {body: _combinations(parts, rounds, rng) for body, parts in DECIDING_PARTS.items()}
    order = [(body, number) for number in range(rounds) for body in rng.permutation(list(DECIDING_PARTS)).tolist()]
    halves = order[: classes // 2], order[classes // 2 : classes]
    bodies = list(DECIDING_PARTS)
    ordered = [drawn for half in halves for drawn in sorted(half, key=lambda drawn: (bodies.index(drawn[0]), drawn[1]))]
    return [make(body=body, **{**dict.fromkeys(PARTS), **of_body[body][number]}) for body, number in ordered]


def completed(design, rng):
    """Returns the design with random kinds for the parts that vary, or the same design if no part varies."""
    varying = [part for part in PARTS if getattr(design, part) is None]
    drawn = {part: str(rng.choice(list(PARTS[part]))) for part in varying}
    return type(design)(*[drawn.get(part, kind) for part, kind in zip(("body", *PARTS), design, strict=True)])


def _combinations(parts, count, rng):
    """Draws `count` different combinations of kinds of these parts, `[{part: kind}, ...]`."""
    counts = [len(PARTS[part]) for part in parts]
    numbers = rng.choice(math.prod(counts), count, replace=False)
    kinds = np.stack(np.unravel_index(numbers, counts), axis=1)
    return [{part: list(PARTS[part])[kind] for part, kind in zip(parts, row, strict=True)} for row in kinds.tolist()]


LOGGER = logging.getLogger(__name__)
# Part of the cache file's name. Increase it when the drawings change.
RENDERER_VERSION = 1
ATTRIBUTES = {"body": tuple(BODIES), **{part: tuple(kinds) for part, kinds in PARTS.items()}}
Design = NamedTuple("Design", [(attribute, str) for attribute in ATTRIBUTES])


@register("dataset", "toycars")
def toycars(
    *,
    data_dir: FilePath | None,
    classes: Annotated[int, integer(2, at_most=math.prod(len(kinds) for kinds in ATTRIBUTES.values()))] = 200,
    images_per_class: Count = 40,
    image_size: Annotated[int, integer(16, at_most=MOST_SIDE)] = 48,
    seed: Seed = 0,
    grouped: bool = False,
    captions: bool = False,
) -> Dataset:
    """Renders toy car images, in which each class is a car design, so that you can try tfdml without a dataset.

    A design is a body with a roof, windows, wheels, lights, bumper and decal. Images of a class differ in colors, pose,
    light, background, occlusion, blur, noise and JPEG quality. The first half of the classes is for training. Another
    seed draws other designs, but two seeds may share a few of them.

    Args:
        data_dir: Folder of the cache file, or `None`. If `None`, it is `tfdml` in `$XDG_CACHE_HOME` or in `~/.cache`.
        classes: Integer of at least 2. Number of designs. Defaults to `200`.
        images_per_class: Integer. Number of images per design. Defaults to `40`.
        image_size: Integer of at least 16. Side of an image in pixels. Defaults to `48`.
        seed: Integer. Determines the designs and the images. Defaults to `0`.
        grouped: Boolean. Whether each body type is a group of similar classes that differ only in two or three parts,
            for example sedans in wheels and roof. The other parts vary from image to image. There are at most 224
            classes, with labels group by group in each half. Defaults to `False`.
        captions: Boolean. Whether each image has a caption with its color and its parts, such as "a red van with a
            roof rack, portholes, disc wheels and a star". Test designs combine parts in other
            ways than training designs. Defaults to `False`.

    Returns:
        `Dataset` with JPEG files as bytes in each row.
    """
    if grouped and classes > MOST_CLASSES:
        raise ValueError(f"toycars(grouped=True) has at most {MOST_CLASSES} classes. Received: classes={classes}.")
    kind = "toycars-grouped" if grouped else "toycars"
    name = f"{kind}-{classes}x{images_per_class}-{image_size}px-seed{seed}-v{RENDERER_VERSION}.npz.sha256"
    path = cache_folder(data_dir) / name
    chosen = grouped_designs(Design, classes, seed) if grouped else designs(classes, seed)
    images, labels = _read(path) or _render_to(path, chosen, images_per_class, image_size, seed)
    names = {label: ", ".join(filter(None, design)) for label, design in enumerate(chosen)}
    groups = {label: design.body for label, design in enumerate(chosen)} if grouped else None
    levels = {"body": {label: design.body for label, design in enumerate(chosen)}}
    texts = _captions(chosen, labels, images_per_class, seed) if captions else None
    both = Split(images, labels, names, class_groups=groups, levels=levels, captions=texts)
    return Dataset("toycars", both.where(labels < classes // 2), both.where(labels >= classes // 2))


def designs(classes, seed):
    """Draws different designs for the classes 0, 1, ..., with the same number for each body type."""
    rng = np.random.default_rng(seed)
    rounds = math.ceil(classes / len(BODIES))
    bodies = np.concatenate([rng.permutation(list(BODIES)) for _ in range(rounds)])[:classes]
    counts = [len(kinds) for kinds in PARTS.values()]
    numbers_of = {body: iter(rng.choice(math.prod(counts), rounds, replace=False)) for body in BODIES}

    def design(body):
        numbers = np.unravel_index(next(numbers_of[body]), counts)
        return Design(body, *[tuple(kinds)[number] for kinds, number in zip(PARTS.values(), numbers, strict=True)])

    return list(map(design, bodies.tolist()))


# Parts with a number or a plural as their name need no article.
WITHOUT_ARTICLE = ("one ", "two ", "three ", "portholes", "luggage", "chequers", "chevrons")


def _captions(chosen, labels, images_per_class, seed):
    """Returns the caption of each image, from its design and the color of its body."""

    def caption(label, number):
        # `render` draws the paint first.
        color = random_paint(np.random.default_rng([seed, label, number])).body
        design = completed(chosen[label], np.random.default_rng([seed, label, number, 1]))
        *parts, last = (_with_article(kind) for kind in design[1:] if not kind.startswith(("no ", "bare ")))
        return f"{_with_article(color_name(color))} {design.body} with {', '.join(parts)} and {last}"

    return as_column((caption(label, place % images_per_class),) for place, label in enumerate(labels.tolist()))


def _with_article(words):
    bare = words.startswith(WITHOUT_ARTICLE) or words.endswith("wheels")
    return words if bare else f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _render_to(path, chosen, images_per_class, image_size, seed):
    """Renders all images and writes them to the cache. Each image has its own generator, so none depends on another.

    The cache file contains a digest, followed by an npz with the joined images, their ends and the labels.
    """
    total, images = len(chosen) * images_per_class, []
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The file is opened first, so that a read-only folder is an error at once.
        with open(partial, "xb") as file:
            size = f"{image_size} x {image_size}"
            LOGGER.info("Rendering %d toy car images of %s pixels. They will be cached in %s", total, size, path)
            bar = ProgressBar(total, "image")
            for label, design in enumerate(chosen):
                for number in range(images_per_class):
                    # The parts that vary have their own generator, so that images without such parts do not change.
                    drawn = completed(design, np.random.default_rng([seed, label, number, 1]))
                    images.append(render(drawn, np.random.default_rng([seed, label, number]), image_size))
                bar.add(images_per_class)
            labels = np.repeat(np.arange(len(chosen)), images_per_class)
            packed = io.BytesIO()
            joined, ends = np.frombuffer(b"".join(images), "uint8"), np.cumsum(list(map(len, images)))
            np.savez(packed, images=joined, ends=ends, labels=labels)
            file.write(hashlib.sha256(packed.getvalue()).digest() + packed.getvalue())
        os.replace(partial, path)
    except OSError as error:
        raise OSError(
            f"Cannot write the toycars cache {path}: {error.strerror or error}. Expected a writable folder with enough "
            "space. Pass another data_dir."
        ) from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
    return _as_rows(images), labels


def _read(path):
    """Returns the images and labels in a cache file, or None if it is missing or damaged."""
    try:
        content = read_bytes(path)
    except OSError:
        return None
    digest, packed = content[:32], content[32:]
    if hashlib.sha256(packed).digest() != digest:
        LOGGER.warning("The toycars cache %s is damaged and will be rendered again.", path)
        return None
    with np.load(io.BytesIO(packed)) as arrays:
        blob, ends, labels = arrays["images"].tobytes(), arrays["ends"], arrays["labels"]
    return _as_rows([blob[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]), labels


def _as_rows(images):
    rows = np.empty(len(images), object)
    rows[:] = images
    return rows
