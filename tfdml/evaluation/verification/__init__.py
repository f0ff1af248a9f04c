"""Decisions about pairs: whether two images show the same class."""
