"""What a backbone declares of the images that it takes; training, evaluation and serving ask here."""


def preprocessing_of(model):
    """`mean`, `std` and `channels` of the model's backbone; of others, what maps RGB pixels to 0 ... 1."""
    backbone = getattr(model, "backbone", None)
    default = {"mean": (0.0,) * 3, "std": (255.0,) * 3, "channels": "rgb"}
    return {name: getattr(backbone, name, value) for name, value in default.items()}


def image_size_of(backbone, asked=0):
    """Side of the images in pixels: the one asked for, or, where that is 0, the backbone's own."""
    size = asked or getattr(backbone, "image_size", None)
    if size is None:
        raise ValueError("--image_size is missing: the backbone does not say for which size of images it was made.")
    return size
