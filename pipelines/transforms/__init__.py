"""Transforms of images, one a file, which `--train_transform` and `--test_transform` find by their registered names.

A transform makes a step: a function `(image, seed) -> image` of a float32 image `[H, W, 3]`, pixels from 0 to 255, or
a `pipelines.images.resizing.Cut`, with which decoding can begin. Random steps are stateless: the same seed
gives the same image.
"""
