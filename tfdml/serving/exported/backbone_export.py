"""Exports a pretrained backbone without any training: its features, and their card."""

import numpy as np

from pipelines.dataset import Split
from pipelines.preprocessing import Preprocessing
from tfdml import registry
from tfdml.methods import Features
from tfdml.run.experiment.experiment import set_up
from tfdml.run.loading import ImageEmbedder
from tfdml.run.training.initial_model import check_pretrained, check_takes, initial_backbone
from tfdml.serving.embedding.image_list import ImageList
from tfdml.serving.exported.projection import Projection
from tfdml.serving.exported.written_export import weights_of, write_export


def export_backbone(settings, out, *, images="", data_dir="", dims=0, whiten=False, **formats):
    """Writes the SavedModel of a pretrained backbone's features, and its card, to a folder that must not exist.

    Args:
        settings: `Settings`, which say the backbone, its weights, the head, and how images are prepared.
        out: the folder.
        images: what `dims` needs, a source of `ImageList`.
        data_dir: the folder of a dataset in `images`.
        dims: number of principal components of the features of `images` to keep; 0: all features.
        whiten: whether to give components the same variance.
        **formats: `tolerant`, `lite` and `onnx`, as of `write_export`.
    """
    set_up(settings.run)
    model, projection = features_of(settings), None
    if dims:
        split = _split_of(ImageList.of(images, data_dir=data_dir, split="train"))
        projection = Projection.fit(ImageEmbedder(model).embed_split(split), dims, whiten)
    write_export(model, out, _about(settings.network, model, images), projection=projection, **formats)


def features_of(settings):
    """Returns the model of a pretrained backbone's features, with its preprocessing.

    Args:
        settings: `Settings`, as of `export_backbone`.
    """
    network = settings.network
    backbone = initial_backbone(network, tell=True)
    check_pretrained(backbone, network)
    model = Features(backbone, head=registry.create("head", network.head))
    about = {"transform": settings.images.test_transform, "shrink": settings.images.shrink_decoding}
    model.preprocessing = Preprocessing.of(model, settings.images.image_size, **about)
    check_takes(backbone, model.preprocessing.image_size, network.backbone)
    model.call_on((1, *model.preprocessing.image_shape))
    _check_head(model, network.head)
    return model


def _check_head(model, spec):
    """Raises a ValueError if a head has random weights: more than the numbers of a norm or of a pooling."""
    if any(len(weight.shape) > 1 for weight in model.features.weights):
        raise ValueError(
            f"--head={spec} has layers with random weights, which need training. Give one without, such as "
            "--head=\"linear(pooling='gem')\"."
        )


def _split_of(images):
    contents = np.array(images.paths, object) if images.contents is None else images.contents
    return Split(contents, np.zeros(len(images), np.int64))


def _about(network, model, images):
    """Returns the facts of a card that the backbone does not say."""
    source, licence = weights_of(network, model.backbone)
    return {
        "model": "pretrained",
        "method": "features",
        "backbone": network.backbone,
        "head": network.head,
        "weights": source,
        "weights_licence": licence,
        "data": {"dataset": None, "projected": images or None},
        "scores": {},
    }
