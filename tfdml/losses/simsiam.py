"""SimSiam."""

from dataclasses import KW_ONLY

from keras import ops

from tfdml.functional.checks import at_least_float32, check_pairs_input
from tfdml.functional.distances import unit_length
from tfdml.functional.pairs import partner_weights
from tfdml.layers.view_heads import Predictor
from tfdml.losses.base import ViewLoss
from tfdml.registry import register
from tfdml.registry.arguments import Count


@register("loss", "simsiam")
class SimSiam(ViewLoss):
    """SimSiam: the prediction of an image's other view, made from one view; no negatives.

    The loss of a row is the mean over the other views of its image of `-cos(h(z), stop_gradient(z'))`, h being the
    predictor: equations (3) and (4) of Chen and He, Exploring Simple Siamese Representation Learning, 2021. The mean
    over rows is the paper's symmetric loss, from 1 to -1.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.SimSiam())`, with batches of `tfdml.data.views`.

    Args:
        hidden: units of the predictor's hidden layer; None: a quarter of the embedding, as in the paper.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` the number of the image of each view.
        embeddings: `[B, 2, d]` predictions and embeddings, which the layer `Predictor` gives.

    Returns:
        `[B]`; 0 for the only view of an image.
    """

    _: KW_ONLY
    hidden: Count | None = None

    rows_each = 2

    def make_layer(self) -> Predictor:
        return Predictor(self.hidden)

    def call(self, labels, embeddings):
        embeddings = at_least_float32(ops.convert_to_tensor(embeddings))
        labels, predictions = check_pairs_input(labels, embeddings[:, 0])
        weights, _ = partner_weights(labels, predictions.dtype)
        others = ops.stop_gradient(ops.matmul(weights, unit_length(embeddings[:, 1])))
        return -ops.sum(unit_length(predictions) * others, axis=1)
