"""Writes the benchmark pages from the records of studies."""
