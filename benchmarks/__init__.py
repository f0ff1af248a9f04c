"""Measurements of speed, and studies of scores; not installed."""
