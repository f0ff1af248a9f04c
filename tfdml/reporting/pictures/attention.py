"""Attention masks of the learners of Attention-based Ensemble."""

from collections.abc import Sequence

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageOps

from tfdml.files.checked import vacated
from tfdml.registry import register
from tfdml.registry.arguments import FilePath
from tfdml.reporting.picture import Picture

# Sizes on the sheet, in pixels.
SIDE, GAP, HEAD = 96, 4, 18
CHANNELS = 3
COLORS = matplotlib.colormaps["inferno"]
# Images of the sheet.
SHOWN = 6


@register("picture", "attention")
class Attention(Picture):
    """Where each learner looks: the mean over channels, and single channels, of its mask.

    Args:
        channels: numbers of channels; None: those in which learners differ most.
        learners: numbers of learners; None: all.
    """

    channels: tuple[int, ...] | None = None
    learners: tuple[int, ...] | None = None
    place = 95
    of = "runs with attention masks, such as --method=attention_ensemble"

    def can_be_drawn(self, subject):
        return "attention" in subject.model.pictures()

    def draw(self, subject, folder):
        # Of different classes, from one end of the split to the other.
        images = subject.inputs(np.linspace(0, len(subject.test) - 1, SHOWN).astype(int))
        path = folder / "attention.png"
        # Half precision adds up to little.
        masks = subject.model.attention_masks(images).numpy().astype(np.float32)
        draw_attention(subject.pixels(images), masks, path, channels=self.channels, learners=self.learners)
        return [path]


def draw_attention(
    pictures: np.ndarray,
    masks: np.ndarray,
    path: FilePath,
    *,
    channels: Sequence[int] | None = None,
    learners: Sequence[int] | None = None,
) -> None:
    """Draws a sheet with a row for each image: the image, then the mean over channels of each learner's mask on it.

    Rows below show the masks of some channels (Figure 6). A learner attends to bright areas; brightness is relative to
    the range of the learners' masks in that row.

    Args:
        pictures: `[B, H, W, 3]` uint8; those that are not square lie in the middle of one.
        masks: `[B, M, h, w, c]` from 0 to 1.
        path: the PNG to write.
        channels: channels to draw; None: those in which learners differ most.
        learners: learners to draw; None: all.
    """
    learners = range(masks.shape[1]) if learners is None else learners
    for kind, numbers, count in (("channels", channels or [], masks.shape[4]), ("learners", learners, masks.shape[1])):
        if any(not 0 <= number < count for number in numbers):
            raise ValueError(f"Expected {kind} from 0 to {count - 1}, received {', '.join(map(str, numbers))}.")
    if channels is None:
        channels = np.argsort(-masks.std(axis=1).mean(axis=(0, 1, 2)))[:CHANNELS].tolist()
    kinds = {"mean": masks.mean(axis=4), **{f"channel {number}": masks[..., number] for number in channels}}
    kinds = {kind: values[:, list(learners)] for kind, values in kinds.items()}
    cell = SIDE + GAP
    part = HEAD + cell * len(pictures)
    sheet = Image.new("RGB", (cell * (len(learners) + 1), part * len(kinds)), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (kind, values) in enumerate(kinds.items()):
        top = part * number
        for column, title in enumerate([kind, *(f"learner {k}" for k in learners)]):
            draw.text((column * cell + 2, top + 2), title, fill="black")
        for row, picture in enumerate(pictures):
            resized = ImageOps.contain(Image.fromarray(picture), (SIDE, SIDE), Image.Resampling.BILINEAR)
            for column, each in enumerate([resized, *_over(resized, values[row])]):
                whole = ImageOps.pad(each, (SIDE, SIDE), color="white")
                sheet.paste(whole, (column * cell, top + HEAD + row * cell))
    sheet.save(vacated(path))


def _over(picture, masks):
    """Draws an image under each of its masks `[M, h, w]`."""
    low, high = masks.min(), masks.max()
    for mask in (masks - low) / max(high - low, 1e-6):
        bright = Image.fromarray(mask.astype(np.float32)).resize(picture.size, Image.Resampling.BILINEAR)
        heat = Image.fromarray((255 * COLORS(np.asarray(bright))[..., :3]).astype(np.uint8))
        yield Image.blend(picture, heat, 0.6)
