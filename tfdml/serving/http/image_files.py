"""Reads images of an index for those who see its neighbors."""

import io

from fastapi import HTTPException

from pipelines.checks import ENDING_OF, as_decodable, wrong_header
from tfdml.serving.embedding.image_list import ImageList

TYPES = {".jpg": "image/jpeg", ".png": "image/png", ".webp": "image/webp"}


def read_image(searcher, id):
    """Returns the content of an image's file, and its media type; raises an HTTPException if there is none.

    Args:
        searcher: `tfdml.serving.Searcher`.
        id: number of the image in the index.
    """
    path = searcher.file_of(id)
    if path is None:
        raise HTTPException(404, f"The index has no image {id}.")
    try:
        content = ImageList([path], [None]).read(0)
    except OSError:
        raise HTTPException(404, f"The file of image {id} cannot be read any more.") from None
    # An index that was made by hand may name any file: only images leave the machine.
    wrong = wrong_header(io.BytesIO(content))
    # Few browsers show a HEIC.
    content = content if wrong or content[:2] in ENDING_OF else as_decodable(content)
    if wrong or content[:2] not in ENDING_OF:
        raise HTTPException(404, f"The file of image {id} is no image any more.")
    return content, TYPES[ENDING_OF[content[:2]]]
