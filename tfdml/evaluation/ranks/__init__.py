"""Exact ranks of positives, counted blockwise."""
