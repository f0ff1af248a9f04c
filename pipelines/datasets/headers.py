"""What the first bytes of an image file tell."""


def wrong_header(path):
    """What is wrong with an image file as far as its header tells, such as `is no readable image`, or None."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            if image.format == "BMP" and image.mode not in ("L", "RGB", "RGBA"):
                return "is a BMP with a palette, which TensorFlow cannot read; save it as PNG"
            if image.format == "WEBP" and image.is_animated:
                return "is a moving WebP, which TensorFlow cannot read; save one picture of it"
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError) as error:
        return f"is no readable image ({getattr(error, 'strerror', None) or error})"
    return None
