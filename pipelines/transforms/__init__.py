"""Transforms: functions `(image, seed) -> image` that `--train_transform` and `--test_transform` name."""

from pipelines.transforms import affine, blur, colours, compression, crops, erasing, keras_layers, rand_augment

__all__ = ["affine", "blur", "colours", "compression", "crops", "erasing", "keras_layers", "rand_augment"]
