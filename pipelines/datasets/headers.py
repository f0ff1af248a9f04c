"""Checks the headers of image files, before anything is decoded."""

import struct

# Pillow's names of the formats that `pipelines.images.decoding` reads; MPO is a JPEG with further pictures behind it.
READ = ("JPEG", "MPO", "PNG", "WEBP")
# First two bytes of a file to the ending of its name.
ENDING_OF = {b"\xff\xd8": ".jpg", b"\x89P": ".png", b"RI": ".webp"}
# 100 megapixels are 300 MB when decoded; a file of a few kilobytes can claim them.
MOST_PIXELS = 100_000_000


def wrong_header(path, most_pixels=MOST_PIXELS):
    """Returns what is wrong with the header of an image file, such as `is not a readable image`, or None.

    Args:
        path: the file, or a file object.
        most_pixels: how many the image may have.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            if image.format not in READ:
                return f"is a {image.format}, which is not read; save it as JPEG or PNG"
            if image.width * image.height > most_pixels:
                return f"has {image.width} x {image.height} pixels, more than {most_pixels:,}; make it smaller"
            if image.format == "WEBP" and image.is_animated:
                return "is an animated WebP, which is not read; save one frame of it"
    except UnidentifiedImageError:
        return "is not a readable image (of no known format, or without a whole header)"
    except (Image.DecompressionBombError, OSError) as error:
        return f"is not a readable image ({getattr(error, 'strerror', None) or error})"
    except (ValueError, SyntaxError, struct.error, OverflowError) as error:
        # Pillow refuses a PNG with much text beside the pixels, which TensorFlow reads.
        return None if "text" in str(error).lower() else f"is not a readable image ({error})"
    return None
