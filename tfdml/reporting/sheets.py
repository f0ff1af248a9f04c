"""The base class of figures, helpers for sheets of images and charts, and the sheet of `python -m tfdml.show`."""

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, TypeAlias

import matplotlib
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from PIL import Image, ImageDraw, ImageFont, ImageOps

from tfdml import registry
from tfdml.files.checked import vacated
from tfdml.registry.arguments import FilePath, Labels
from tfdml.registry.fields import Declared
from tfdml.reporting.subject import Subject, pixels_of
from tfdml.run.experiment.experiment import Experiment, set_up
from tfdml.run.experiment.length import Length
from tfdml.run.training.initial_model import InitialModel
from tfdml.run.training.run_sampler import make_sampler

FONT = Path(matplotlib.get_data_path(), "fonts/ttf/DejaVuSans.ttf")
BOLD = Path(matplotlib.get_data_path(), "fonts/ttf/DejaVuSans-Bold.ttf")
# Frame colors. One is much brighter, so that color-blind people can distinguish them.
RIGHT, WRONG = "#2ca25f", "#b2182b"
MUTED = "#555555"
FRAME = 4
# A function of a row and a side that returns the image of the row, uint8 `[side, side, 3]`.
Thumbnail: TypeAlias = Callable[[int, int], np.ndarray]


class Sheet:
    """A white sheet on which images and text are placed. All sizes are in pixels."""

    def __init__(self, width, height):
        self.image = Image.new("RGB", (width, height), "white")
        self._draw = ImageDraw.Draw(self.image)

    def picture(self, left, top, pixels, frame=None):
        """Pastes a uint8 image `[h, w, 3]` with a colored or white frame, with its outer corner at a position."""
        height, width = pixels.shape[:2]
        self.bar(left, top, width + 2 * FRAME, height + 2 * FRAME, frame or "white")
        self.image.paste(Image.fromarray(pixels), (left + FRAME, top + FRAME))

    def words(self, left, top, text, *, size=12, width=None, lines=1, color="black", bold=False, spacing=2):
        """Writes text.

        If a width is set, the text is wrapped into at most `lines` lines and the rest is cut off.
        """
        font = ImageFont.truetype(BOLD if bold else FONT, size)
        if width is not None:
            letters = max(int(width / font.getlength("n")), 1)
            text = "\n".join(textwrap.wrap(text, letters, max_lines=lines, placeholder="…"))
        self._draw.multiline_text((left, top), text, color, font, spacing=spacing)

    def bar(self, left, top, width, height, color):
        """Draws a rectangle in one color."""
        self._draw.rectangle((left, top, left + width - 1, top + height - 1), fill=color)

    def dot(self, left, top, size, color):
        """Draws a dot that is centered at `(left, top)`."""
        self._draw.ellipse((left - size / 2, top - size / 2, left + size / 2, top + size / 2), fill=color)

    def line(self, top):
        """Draws a line across the sheet."""
        self._draw.line((0, top, self.image.width, top), fill="#cccccc")

    def save(self, path):
        """Writes the sheet as a PNG file."""
        self.image.save(vacated(path))


class Picture(Declared):
    """Base class of the figures of a run, which reports show.

    Extend this class to add your own figure, which may consist of several files, and register it with
    `@tfdml.registry.register("picture", name)` to use its name in `--only`. The first line of its docstring is the
    caption of the file with its name. Its arguments are declared as fields, as for losses.

    Attributes:
        captions: Dictionary. Captions of further files, by their names without the ending.
        place: Integer. Position on the page. Figures with smaller numbers come first.
        of: String. Which runs have the figure, in words.
        if_named: Boolean. Whether the figure is drawn only if `--only` names it.
        on_page: Boolean. Whether the page shows the file. The page shows the content of some figures in its own way.

    Example:

    ```python
    class Norms(tfdml.reporting.Picture):
        "Lengths of the embeddings of the test images."

        def draw(self, subject, folder):
            path = folder / "norms.txt"
            np.savetxt(path, np.linalg.norm(subject.embeddings, axis=1))
            return [path]
    ```
    """

    captions: ClassVar[Mapping[str, str]] = {}
    place: ClassVar[int] = 100
    of: ClassVar[str] = "all runs"
    if_named: ClassVar[bool] = False
    on_page: ClassVar[bool] = True

    def can_be_drawn(self, subject: Subject) -> bool:
        """Returns whether a run has this figure.

        Args:
            subject: `Subject` of the run.
        """
        return True

    def draw(self, subject: Subject, folder: Path) -> list[Path]:
        """Writes the files of the figure and returns their paths.

        Args:
            subject: `Subject` of the run.
            folder: Folder for the files.
        """
        raise NotImplementedError(f"{type(self).__name__} must define the method draw(subject, folder).")


# Sizes on the sheet, in pixels.
SMALLEST_SIDE, LARGEST_SIDE, MOST_COLUMNS = 96, 224, 16
GAP, BAR, MARGIN = 8, 5, 12
TEXT, TITLE = 12, 15
LABEL_LINES = 3
FRAME_COLORS = [tuple(round(255 * part) for part in color) for color in matplotlib.colormaps["tab20"].colors]


def draw_batch(pictures: np.ndarray, labels: Labels, names: Mapping[int, str], path: FilePath, *, title: str) -> None:
    """Draws the images of a batch in order, each with the name of its class and a color bar below.

    If every class has the same number of consecutive images, no class is split between two rows of the sheet.

    Args:
        pictures: `[B, H, W, 3]` uint8 array. Images that are not square are padded to squares.
        labels: `[B]` integer class labels.
        names: Dictionary from class label to name. Classes without a name are shown as numbers.
        path: Path of the PNG file to write.
        title: String. Title of the sheet.

    Example:

    ```python
    images = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), "uint8")
    names = dict(enumerate(["cup", "mug"]))
    tfdml.reporting.draw_batch(images, np.array([0, 0, 1, 1]), names, "batch.png", title="A batch")
    ```
    """
    longest = max(pictures.shape[1:3])
    # Enlarge small images by an integer factor.
    side = longest * -(-SMALLEST_SIDE // longest) if longest < SMALLEST_SIDE else min(longest, LARGEST_SIDE)
    # Make the sheet about square. If classes have the same size, keep each class in one row.
    lengths = np.diff([0, *(np.flatnonzero(np.diff(labels)) + 1), len(labels)])
    of_class = int(lengths[0]) if np.all(lengths == lengths[0]) and lengths[0] <= MOST_COLUMNS else 1
    wanted = int(min(np.sqrt(1.5 * len(labels)), MOST_COLUMNS))
    columns = min(max(wanted // of_class, 1) * of_class, len(labels))
    rows = -(-len(pictures) // columns)
    line, across = TEXT + 3, side + GAP
    width = max(2 * MARGIN + columns * across - GAP, 480)
    title = "\n".join(textwrap.wrap(title, int((width - 2 * MARGIN) / (0.6 * TITLE))))
    top = MARGIN + (TITLE + 5) * (title.count("\n") + 1) + GAP
    down = side + BAR + LABEL_LINES * line + GAP
    sheet = Sheet(width, top + rows * down + MARGIN - GAP)
    sheet.words(MARGIN, MARGIN, title, size=TITLE, spacing=5)
    colors = {
        label: FRAME_COLORS[place % len(FRAME_COLORS)] for place, label in enumerate(dict.fromkeys(labels.tolist()))
    }
    for place, (picture, label) in enumerate(zip(pictures, labels.tolist(), strict=True)):
        x, y = MARGIN + place % columns * across, top + place // columns * down
        # Enlarged images keep sharp pixels.
        how = Image.Resampling.NEAREST if side > max(picture.shape[:2]) else Image.Resampling.LANCZOS
        pixels = np.asarray(ImageOps.pad(Image.fromarray(picture), (side, side), how, "white"))
        sheet.picture(x - FRAME, y - FRAME, pixels)
        sheet.bar(x, y + side, side, BAR - 1, colors[label])
        name = names.get(label, f"class {label}").replace("_", " ")
        sheet.words(x, y + side + BAR, name, size=TEXT, width=side, lines=LABEL_LINES, spacing=1)
    sheet.save(path)


def show_batch(settings, split, step, most, out):
    """Draws at most `most` images of a batch of a run from its `Settings`, and returns a description of the batch.

    The split is `train`, for the batch of a training step after the training transform, or `test`, for the evaluation
    batch with this number.
    """
    if settings.data.has_vectors:
        raise ValueError(f"--dataset={settings.data.dataset} has stored features, which cannot be drawn.")
    # A single batch needs neither several devices nor a cache.
    settings = settings.replace(devices="auto", cache="none")
    experiment = Experiment.of(settings, set_up(settings.run))
    # The backbone is all that determines how images are prepared.
    network = settings.network
    initial = InitialModel.of(network.initial_model).new_backbone() if network.initial_model else None
    model = SimpleNamespace(backbone=initial or registry.create("backbone", network.backbone))
    with experiment.naming_unreadable():
        batch = _training_batch if split == "train" else _evaluation_batch
        images, labels, names, transform = batch(experiment, model, step)
    size = f"{images.shape[1]} × {images.shape[2]}"
    kind = f"{'training' if split == 'train' else 'evaluation'} batch {step}"
    about = f"{settings.data.dataset}, {kind}: {len(images)} images of {len(set(labels.tolist()))} classes, {size}"
    about_pixels = experiment.images.preprocessing(model)
    pictures = pixels_of(images[:most], about_pixels.mean, about_pixels.std, about_pixels.channels)
    draw_batch(pictures, labels[:most], names or {}, out, title=f"{about}, {transform.replace('|', ' | ')}")
    return about


def _training_batch(experiment, model, step):
    """Returns the images and labels of a step's batch, the class names, and the transform."""
    settings, train = experiment.settings, experiment.splits.train
    sampler = make_sampler(settings.batches.sampler, experiment.splits, settings.evaluation)
    length = Length.of(settings.length, settings.evaluation, len(train) // sampler.batch_size)
    of_epoch = length.steps_per_epoch
    progress = SimpleNamespace(pipeline_step=tf.Variable(step, dtype=tf.int64), steps_per_epoch=of_epoch)
    images, labels = next(iter(experiment.images.training(model, sampler, progress, of_epoch - step % of_epoch)))
    return images.numpy(), labels.numpy(), train.class_names, settings.images.train_transform


def _evaluation_batch(experiment, model, number):
    """Returns the same for a batch of evaluation on the test split."""
    settings, test = experiment.settings.images, experiment.splits.test
    size = settings.eval_batch_size
    batches = -(-len(test) // size)
    if number >= batches:
        raise ValueError(
            f"--step must be less than {batches}, because evaluation has {batches} batches of {size} images. Received: "
            f"--step={number}."
        )
    rows = np.arange(number * size, min((number + 1) * size, len(test)))
    split = test.where(rows)
    images = next(iter(experiment.images.evaluation(split, model))).numpy()[: len(split)]
    return images, split.labels, test.class_names, settings.test_transform


# Colors of lines and bars, which color-blind people can distinguish.
COLORS = ("#3182bd", "#d95f02", "#2ca25f", "#756bb1", "#636363", "#e7298a", "#a6761d", "#66a61e")


def new_chart(across, up):
    """Returns a figure and its axes, with axis labels."""
    figure = Figure(figsize=(6, 4), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    label(axes, across, up)
    return figure, axes


def label(axes, across, up):
    """Labels the two axes, and hides the frame on the other sides."""
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.spines[["top", "right"]].set_visible(False)


def in_percent(*axes):
    """Shows the fractions along axes, such as `axes.yaxis`, in percent."""
    for axis in axes:
        axis.set_major_formatter(PercentFormatter(1.0))


def legend_above(axes, columns=1):
    """Draws the legend above the chart, so that it does not cover anything."""
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, ncols=columns)


def save_chart(figure, path):
    """Writes a chart as a PNG file and, next to it, as an SVG file."""
    figure.savefig(vacated(path))
    # A fixed salt and no date, so that the same chart always gives the same file.
    with matplotlib.rc_context({"svg.hashsalt": "tfdml"}):
        figure.savefig(vacated(Path(path).with_suffix(".svg")), metadata={"Date": None})
