"""`Found`: what a search has found."""

from collections.abc import Callable, Iterable

from tfdml.serving.index.neighbor import Neighbor


class Found(list[list[Neighbor]]):
    """For each query a list of `Neighbor`s, the nearest first.

    Args:
        lists: the lists.
        matching: number of images among which was searched, those that a filter takes; or a function that counts them
            when they are asked for.
        exact: whether these are the nearest for sure. An approximate index compares a query with all images that a
            filter takes where these are few.
    """

    def __init__(self, lists: Iterable[list[Neighbor]], matching: int | Callable[[], int], exact: bool):
        super().__init__(lists)
        self._matching, self.exact = matching, exact

    @property
    def matching(self) -> int:
        """Number of images among which was searched."""
        if not isinstance(self._matching, int):
            self._matching = self._matching()
        return self._matching
