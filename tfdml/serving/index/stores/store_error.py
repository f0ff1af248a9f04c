"""`StoreError`: a store does not do what it is asked for now; `OtherIndex`: it has another index than is asked for."""


class StoreError(OSError):
    """A store does not answer, or cannot do what it is asked for now; it may pass.

    What is wrong with the request, or with the table, is a ValueError.
    """


class OtherIndex(ValueError):
    """A store has rows of another model, an index of another kind, or none."""
