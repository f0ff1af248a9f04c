"""Names that the reader of a page has before its first example, for `check.py`."""

# README.md: a reader's image files and their classes.
paths: list[str]
labels: list[str]
