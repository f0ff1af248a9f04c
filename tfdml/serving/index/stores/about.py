"""`About`: what a store says of its rows."""

import dataclasses
from collections.abc import Collection, Mapping

from tfdml.serving.index.attributes import OWN


@dataclasses.dataclass(frozen=True)
class About:
    """The description of the rows of a store.

    Args:
        model: hash of the model whose embeddings these are.
        dimension: of an embedding.
        metric: `cosine` or `euclidean`.
        kind: spec of the index, such as `flat` or `hnsw(ef_search=200)`.
        columns: name of an attribute to `text`, `number`, `boolean` or `time`.
    """

    model: str
    dimension: int
    metric: str
    kind: str
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def kinds(self, hidden: Collection[str] = ()) -> dict[str, str]:
        """Returns name of a column to its kind, of attributes and of the columns that every index has.

        Args:
            hidden: names of columns to leave out.
        """
        return {name: kind for name, kind in {**OWN, **self.columns}.items() if name not in hidden}
