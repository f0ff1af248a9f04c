"""Makes batches of small images with Keras' backend, and writes them to the file that the argument names."""

import io
import sys

import keras
import numpy as np
from PIL import Image

import tfdml
from pipelines.sampling import WithinClusters
from tfdml import registry

SAMPLERS = {
    "pxk": "pxk(classes=4, per_class=3)",
    "proportional_pxk": "proportional_pxk(groups=4, per_class=2)",
    "uniform": "uniform(batch_size=16)",
    "pairs": "pairs(images=8)",
    "triplets": "triplets(triplets=5)",
    "hard_neighbors": "hard_neighbors(pairs=6, neighbors=3)",
    "within clusters": "pxk(classes=2, per_class=2)",
}
TRANSFORMS = [
    "random_resized_crop(area=(0.5, 1.0))|flip",
    "resize_short|random_crop|flip",
    "warp|color_jitter",
    "warp|blur|grayscale(probability=0.3)",
    "warp|rotate|random_erasing(noise=True)",
    "trim_border|warp",
]
OPTIONS = {"mean": (0, 0, 0), "std": (1, 1, 1), "image_size": 24}
LABELS = np.repeat(np.arange(8), [5, 4, 9, 2, 3, 7, 6, 4])


def arrays():
    rng, found = np.random.default_rng(0), {}
    for name, spec in SAMPLERS.items():
        sampler = registry.create("sampler", spec)
        if name == "within clusters":
            sampler = WithinClusters(sampler)
        sampler.bind(LABELS)
        if name == "hard_neighbors":
            sampler.refresh(rng.normal(size=(len(LABELS), 8)).astype(np.float32))
        found[f"rows of {name}"] = np.asarray(sampler.rows(3, np.arange(40)))
    small = rng.integers(0, 256, (len(LABELS), 6, 8, 3), np.uint8)
    images = np.stack([np.asarray(Image.fromarray(each).resize((40, 32), Image.Resampling.BICUBIC)) for each in small])
    for transform in TRANSFORMS:
        batches = tfdml.data.pxk(images, LABELS, classes=3, per_class=2, transform=transform, **OPTIONS)
        found[f"images of {transform}"], found[f"labels of {transform}"] = joined(batches)
    found["views"], found["numbers of views"] = joined(tfdml.data.views(images, batch_images=4, **OPTIONS))
    found["in order"] = np.concatenate([np.asarray(each) for each in tfdml.data.in_order(images, **OPTIONS)])
    files = [encoded(image) for image in images[:4]]
    found["jpeg"] = np.concatenate([np.asarray(each) for each in tfdml.data.in_order(files, batch_size=4, **OPTIONS)])
    batches = tfdml.data.pxk(images, LABELS, classes=3, per_class=2, transform=None)
    found["two passes"] = np.stack([joined(batches)[1] for _ in range(2)])
    return found


def joined(batches):
    return [np.concatenate(list(map(np.asarray, each))) for each in zip(*batches, strict=True)]


def encoded(image):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=95)
    return file.getvalue()


if __name__ == "__main__":
    np.savez(sys.argv[1], **arrays())
    print(keras.backend.backend(), "tensorflow" in sys.modules)
