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
    """Computes the SimSiam loss: one view of an image predicts the embedding of another view, without negatives.

    The loss of a row is the mean over the other views of its image of `-cos(h(z), stop_gradient(z'))`, where h is the
    predictor: equations (3) and (4) of Chen and He, Exploring Simple Siamese Representation Learning, 2021. The mean
    over rows is the paper's symmetric loss, between 1 and -1.

    Use this loss for images without labels, with batches of `tfdml.data.views`. The model that you train ends with its
    layer, `loss.make_layer()(embeddings)`; the models of `tfdml.methods` create it.

    Args:
        hidden: Integer or `None`. Units of the predictor's hidden layer. If `None`, a quarter of the embedding size, as
            in the paper. Defaults to `None`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` the number of the image of each view.
        embeddings: `[B, 2, d]` predictions and embeddings, the output of the layer `Predictor`.

    Returns:
        `[B]`, one loss per row. If a row is the only view of its image, its loss is 0.

    Example:

    ```python
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    outputs = np.stack([embeddings, embeddings], axis=1)  # A predictor that changes nothing.
    tfdml.losses.SimSiam()(np.array([0, 0, 1, 1]), outputs)  # -0.8
    ```
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
