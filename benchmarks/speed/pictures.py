"""Writes JPEG files for measurements."""

import io

import numpy as np
from PIL import Image

WIDTH, HEIGHT, QUALITY = 500, 375, 90


def picture(seed):
    """Returns a JPEG of clouds at every scale, with about the spectrum and the file size of a photo."""
    random = np.random.default_rng(seed)
    width, height = (round(side * random.uniform(0.85, 1.15)) for side in (WIDTH, HEIGHT))
    pixels = np.full((height, width, 3), 128.0)
    for octave in range(1, 9):
        cells = random.normal(size=(max(height >> octave, 1), max(width >> octave, 1), 3)) * 7 * octave**0.7
        shown = [Image.fromarray(cells[..., channel].astype(np.float32)) for channel in range(3)]
        pixels += np.stack([np.asarray(part.resize((width, height), Image.BICUBIC)) for part in shown], axis=2)
    file = io.BytesIO()
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def write_pictures(folder, count, first=0):
    """Writes the images of the first seeds, if they do not exist yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(first, first + count):
        path = folder / f"{seed:05}.jpg"
        if not path.exists():
            path.write_bytes(picture(seed))
