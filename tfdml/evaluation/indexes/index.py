"""`Index`: what indexes have in common."""

from collections.abc import Sequence

from tfdml.evaluation.indexes.index_search import IndexSearch
from tfdml.evaluation.metrics.metric import Metric
from tfdml.evaluation.search import RetrievalTask
from tfdml.registry.arguments import Distance, Embeddings
from tfdml.registry.fields import Declared


class Index(Declared):
    """How the images of a gallery are searched."""

    #: The name under which it is registered.
    name = None
    #: Whether it finds only the nearest images, and not always all of them.
    is_approximate = False

    def check(self, metrics: Sequence[Metric]) -> None:
        """Raises a ValueError if a metric needs what this index does not find.

        Args:
            metrics: list of `Metric`.
        """
        raise NotImplementedError

    def searched(
        self, embeddings: Embeddings, task: RetrievalTask, metrics: Sequence[Metric], distance: Distance
    ) -> IndexSearch | None:
        """Returns an `IndexSearch`, or None if ranks are counted instead.

        Args:
            embeddings: `[N, d]` array.
            task: `RetrievalTask` among its rows.
            metrics: list of `RankMetric`.
            distance: `cosine` or `euclidean`.
        """
        raise NotImplementedError

    def __repr__(self):
        """The spec."""
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
