"""Transforms of images, which `--train_transform` and `--test_transform` find by their registered names.

A transform returns a step: a function `(image, seed) -> image` of a float32 image `[H, W, 3]` with pixels from 0 to
255, or a `pipelines.images.resizing.Cut`, which can be combined with decoding. Random steps are stateless: the same
seed results in the same image.
"""
