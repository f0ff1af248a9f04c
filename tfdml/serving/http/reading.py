"""Reads an image's file, the number of neighbors and their filter from the body of a request."""

import base64
import io
import json
import re

from fastapi import HTTPException
from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from pipelines.checks import why_costly, wrong_header
from tfdml.serving.http.limits import MOST_NEIGHBORS

# Bytes of an image whose header is read without a thread, which would take longer than the longest header of so many.
AT_ONCE = 2**16
FORM, JSON = "multipart/form-data", "application/json"


async def read_query(request, limits, default_k):
    """Returns image, number of neighbors and filter of a request; an HTTPException says what is wrong with it.

    Args:
        request: with a form, `image`, `k` and `where`, or JSON, `b64`, `k` and `where`.
        limits: `Limits`.
        default_k: number of neighbors if the request names none; 0 if it must not name one, nor a filter.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    names = {"k", "where"} if default_k else set()
    if kind == FORM:
        _check_charset(request.headers["content-type"])
        content, k, where = await _of_form(request, names)
    elif kind == JSON:
        content, k, where = await run_in_threadpool(_of_json, await request.body(), names)
    else:
        raise HTTPException(415, f"Expected the content type {FORM} or {JSON}, received {kind[:100] or 'none'}.")
    if len(content) <= AT_ONCE:
        _check_image(content, limits)
    else:
        await run_in_threadpool(_check_image, content, limits)
    return content, _checked_k(k, default_k), _checked_where(where)


def _check_charset(content_type):
    # Of others Python may have a decoder that takes minutes for a field, in which nobody is answered.
    charset = parse_options_header(content_type)[1].get(b"charset", b"utf-8")
    if charset.lower() not in (b"utf-8", b"utf8"):
        raise HTTPException(415, f"Expected the charset utf-8, received {charset.decode('latin-1')[:100]}.")


async def _of_form(request, names):
    # Files that are not closed stay open; the context closes them.
    async with request.form(max_files=1, max_fields=max(len(names), 1)) as form:
        _check_names(form.keys(), {"image", *names}, "image")
        upload, k, where = form["image"], form.get("k"), form.get("where")
        if not isinstance(upload, UploadFile):
            raise HTTPException(400, "The field image is text; send a file.")
        if re.search(r"[/\\\0]", upload.filename or ""):
            raise HTTPException(400, "The file's name has a path in it; send the name alone.")
        if isinstance(k, UploadFile):
            raise HTTPException(400, "The field k is a file; send a number.")
        return await upload.read(), int(k) if k is not None and re.fullmatch("[0-9]{1,9}", k) else k, where


def _of_json(body, names):
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "The body is no JSON.") from None
    if not isinstance(found, dict):
        raise HTTPException(400, 'Expected a JSON object such as {"b64": "..."}.')
    _check_names(found, {"b64", *names}, "b64")
    if not isinstance(found["b64"], str):
        raise HTTPException(400, "b64 is no text; send the file's content in base64.")
    try:
        return base64.b64decode(found["b64"], validate=True), found.get("k"), found.get("where")
    except ValueError:
        raise HTTPException(400, "b64 is no base64; send the file's content in base64, without line breaks.") from None


def _check_names(names, known, needed):
    unknown = sorted(set(names) - known)
    if unknown:
        raise HTTPException(400, f"Unknown field {unknown[0][:100]!r}; expected {', '.join(sorted(known))}.")
    if needed not in names:
        raise HTTPException(400, f"The field {needed} is missing.")


def _checked_k(k, default):
    if k is None:
        return default
    if type(k) is not int or not 1 <= k <= MOST_NEIGHBORS:
        raise HTTPException(400, f"k: expected a whole number from 1 to {MOST_NEIGHBORS}, received {str(k)[:100]!r}.")
    return k


def _checked_where(where):
    # A page's form sends an empty field as an empty text.
    if where is None or where == "":
        return None
    if not isinstance(where, str):
        raise HTTPException(400, "where: expected a text, such as label == 'cup'.")
    return where


def _check_image(content, limits):
    """Decodes nothing: what the file claims decides whether the model may decode it."""
    if not content:
        raise HTTPException(400, "The image is empty.")
    if len(content) > limits.image_bytes:
        raise HTTPException(413, f"The image has {len(content):,} bytes, more than {limits.image_bytes:,}.")
    wrong = wrong_header(io.BytesIO(content), limits.pixels) or why_costly(content)
    if wrong:
        raise HTTPException(400, f"The image {wrong}.")
