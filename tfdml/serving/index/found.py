"""`Found`: what a search has found."""

from collections.abc import Iterable

from tfdml.serving.index.neighbor import Neighbor


class Found(list[list[Neighbor]]):
    """For each query a list of `Neighbor`s, the nearest first.

    Args:
        lists: the lists.
        matching: number of images among which was searched: those that a filter takes.
        exact: whether these are the nearest for sure. An approximate index compares a query with all images that a
            filter takes where these are few.
    """

    def __init__(self, lists: Iterable[list[Neighbor]], matching: int, exact: bool):
        super().__init__(lists)
        self.matching, self.exact = matching, exact
