"""Measures Keras' backend on this machine in a few minutes: `python -m benchmarks.gpu`, with the extra bench.

KERAS_BACKEND chooses the backend; run it once for each. It prints one Markdown table: a training step of ResNet-50 and
ViT-B/16 at 224 pixels with the loss of the whole batch, the evaluation of embeddings, and losses next to the same
losses of pytorch-metric-learning, which only run on PyTorch. Each step sends its batch to the device. After --minutes,
no other measurement starts. The defaults are for a GPU. On CPUs, use small sizes: `--networks=ResNet-50 --pixels=32
--batches=8 --steps=2 --images=500 --rows=64`.
"""

import argparse
import importlib.util
import statistics
import time

import keras
import numpy as np

import tfdml
from benchmarks.markdown import markdown
from tfdml import registry

CLASSES_OF_FOUR = 4
DIMENSIONS = 512
LOSSES = {
    "multi_similarity": ("MultiSimilarityLoss", {}),
    "triplet(mining='all')": ("TripletMarginLoss", {}),
    "sup_con": ("SupConLoss", {}),
    "contrastive": ("ContrastiveLoss", {}),
}


class Repeated(keras.utils.PyDataset):
    """The same batch, `steps` times."""

    def __init__(self, batch, steps):
        super().__init__()
        self._batch, self._steps = batch, steps

    def __len__(self):
        return self._steps

    def __getitem__(self, index):
        return self._batch


def resnet50(pixels):
    return keras.applications.ResNet50(include_top=False, weights=None, input_shape=(pixels, pixels, 3))


def vit(pixels):
    from keras_hub.models import ViTBackbone

    shape = {"num_layers": 12, "num_heads": 12, "hidden_dim": 768, "mlp_dim": 3072}
    return ViTBackbone(image_shape=(pixels, pixels, 3), patch_size=16, **shape)


NETWORKS = {"ResNet-50": resnet50, "ViT-B/16": vit}


def seconds_of_step(name, pixels, size, steps):
    """Returns the seconds of a training step with a batch, without the first steps, which compile."""
    model = tfdml.Single(NETWORKS[name](pixels), embedding_size=DIMENSIONS)
    model.compile("adam", "multi_similarity")
    rng = np.random.default_rng(0)
    images = rng.uniform(-2, 2, (size, pixels, pixels, 3)).astype(np.float32)
    batch = images, np.repeat(np.arange(-(-size // CLASSES_OF_FOUR)), CLASSES_OF_FOUR)[:size]
    model.fit(Repeated(batch, 2), shuffle=False, verbose=0)
    began = time.perf_counter()
    model.fit(Repeated(batch, steps), shuffle=False, verbose=0)
    return (time.perf_counter() - began) / steps


def seconds_of_evaluation(count):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(-(-count // 5)), 5)[:count]
    embeddings = (
        rng.normal(size=(count, DIMENSIONS)).astype(np.float32) + rng.normal(size=(labels.max() + 1, 1))[labels]
    )
    began = time.perf_counter()
    tfdml.evaluation.evaluate(embeddings, labels)
    return time.perf_counter() - began


def seconds_of_loss(spec, rows):
    """Returns the seconds of a loss with gradients: of tfdml, and of pytorch-metric-learning or None."""
    rng = np.random.default_rng(0)
    embeddings = rng.normal(size=(rows, DIMENSIONS)).astype(np.float32)
    labels = np.repeat(np.arange(-(-rows // CLASSES_OF_FOUR)), CLASSES_OF_FOUR)[:rows]
    backend = keras.backend.backend()
    return _GRADIENTS[backend](registry.create("loss", spec), embeddings, labels), _of_pml(spec, embeddings, labels)


def _timed(run):
    run()
    found = []
    for _ in range(5):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def _on_tensorflow(loss, embeddings, labels):
    import tensorflow as tf

    @tf.function
    def gradient(embeddings):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            value = loss(labels, embeddings)
        return tape.gradient(value, embeddings)

    embeddings = tf.constant(embeddings)
    return _timed(lambda: gradient(embeddings).numpy())


def _on_jax(loss, embeddings, labels):
    import jax

    gradient, embeddings = jax.jit(jax.grad(lambda rows: loss(labels, rows))), jax.numpy.array(embeddings)
    return _timed(lambda: np.asarray(gradient(embeddings)))


def _on_torch(loss, embeddings, labels):
    from keras.src.backend.torch.core import get_device

    return _timed_on_torch(loss, embeddings, labels, get_device())


def _timed_on_torch(loss, embeddings, labels, device):
    import torch

    rows = torch.tensor(embeddings, device=device, requires_grad=True)
    labels = torch.tensor(labels, device=device)
    return _timed(lambda: torch.autograd.grad(loss(labels, rows), rows)[0].cpu())


_GRADIENTS = {"tensorflow": _on_tensorflow, "jax": _on_jax, "torch": _on_torch}


def _of_pml(spec, embeddings, labels):
    if keras.backend.backend() != "torch" or importlib.util.find_spec("pytorch_metric_learning") is None:
        return None
    import torch
    from pytorch_metric_learning import losses

    name, arguments = LOSSES[spec]
    loss = getattr(losses, name)(**arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return _timed_on_torch(lambda labels, rows: loss(rows, labels), embeddings, labels, device)


def measured(arguments):
    """Yields the rows of the table: what is measured, its size, the time, and a rate or the time of another library."""
    for name in arguments.networks.split(","):
        for size in map(int, arguments.batches.split(",")):
            setting = f"{arguments.pixels} px, batch of {size}"
            try:
                seconds = seconds_of_step(name, arguments.pixels, size, arguments.steps)
                told = _in_ms(seconds), f"{size / seconds:,.0f} images/s"
            except Exception as error:
                # Each backend has its own error for too little memory.
                told = f"{type(error).__name__}: {str(error).splitlines()[0][:60]}", ""
            yield f"training step, {name}", setting, *told
    seconds = seconds_of_evaluation(arguments.images)
    yield "evaluation", f"{arguments.images:,} embeddings", _in_ms(seconds), ""
    for spec in LOSSES:
        own, other = seconds_of_loss(spec, arguments.rows)
        compared = "" if other is None else f"pytorch-metric-learning: {_in_ms(other)}"
        yield f"loss with gradient, {spec}", f"{arguments.rows} embeddings", _in_ms(own), compared


def _in_ms(seconds):
    return f"{1000 * seconds:,.1f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS), help="Networks, separated by commas.")
    parser.add_argument("--pixels", type=int, default=224, help="Side length of the images.")
    parser.add_argument("--batches", default="64,256,1024", help="Numbers of images per batch, separated by commas.")
    parser.add_argument("--steps", type=int, default=10, help="Number of measured steps.")
    parser.add_argument("--images", type=int, default=60_000, help="Number of embeddings to evaluate.")
    parser.add_argument("--rows", type=int, default=1024, help="Number of embeddings for the losses.")
    parser.add_argument("--minutes", type=float, default=10, help="Time after which nothing else is measured.")
    arguments = parser.parse_args()
    end, rows = time.perf_counter() + 60 * arguments.minutes, []
    for row in measured(arguments):
        rows.append(row)
        if time.perf_counter() > end:
            rows.append(["stopped", f"after {arguments.minutes:g} minutes", "", ""])
            break
    print(markdown([f"Keras on {keras.backend.backend()}", "Size", "Time", "Rate"], rows))


if __name__ == "__main__":
    main()
