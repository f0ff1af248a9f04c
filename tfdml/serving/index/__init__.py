"""Indexes of images, and searches in them."""
