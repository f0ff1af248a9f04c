"""The service as an ASGI app: search, labels, embeddings, images, health, metrics and a search page."""

import asyncio
import base64
import contextlib
import hashlib
import io
import math
import os
import string
from importlib import resources

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from prometheus_client import generate_latest
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from pipelines.boxes import BoxError, cropped
from pipelines.checks import ENDING_OF, as_decodable, is_quick, wrong_header
from tfdml.serving.http.queries import LONGEST_TEXT, Batcher, CurrentIndex, Query, answer_all, read_query
from tfdml.serving.http.server import (
    MOST_NEIGHBORS,
    BodyLimits,
    Guard,
    Limits,
    Metrics,
    RequestCounter,
    answer_errors,
)
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.labeling import vote
from tfdml.serving.index.threshold import Threshold

TYPES = {".jpg": "image/jpeg", ".png": "image/png", ".webp": "image/webp"}


def read_image(searcher, id):
    """Returns the contents and the media type of an image's file. Raises an HTTPException if there is no such image."""
    path = searcher.file_of(id)
    if path is None:
        raise HTTPException(404, f"The index does not contain an image with the id {id}.")
    try:
        content = ImageList([path], [None]).read(0)
    except OSError:
        raise HTTPException(404, f"The file of image {id} can no longer be read.") from None
    # A manipulated index may name any file, so only images leave the machine.
    wrong = wrong_header(io.BytesIO(content))
    if not wrong and content[:2] not in ENDING_OF:
        # Few browsers can show HEIC images.
        content = as_decodable(content)
    if wrong or content[:2] not in ENDING_OF:
        raise HTTPException(404, f"The file of image {id} is no longer an image.")
    return content, TYPES[ENDING_OF[content[:2]]]


def page():
    """Returns the page, and the content security policy that allows only the page's own script and style."""
    files = resources.files("tfdml.serving.http")
    html, style, script = (
        files.joinpath(f"page.{ending}").read_text(encoding="utf-8") for ending in ("html", "css", "js")
    )
    style_hash, script_hash = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)
    )
    policy = (
        f"default-src 'none'; script-src 'sha256-{script_hash}'; style-src 'sha256-{style_hash}'; img-src blob: data:; "
        "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    )
    return string.Template(html).substitute(style=style, script=script), policy


UNKNOWN = "unknown"
K = {"type": "integer", "minimum": 1, "maximum": MOST_NEIGHBORS, "description": "Number of neighbors."}
WHERE = {"type": "string", "description": "Filter, such as label in ('mug', 'cup') and price < 20."}
BOX = {
    "type": "array",
    "items": {"type": "number"},
    "minItems": 4,
    "maxItems": 4,
    "description": "Left, top, right and bottom of the part of the image to use, in pixels or as fractions of its "
    "width and height. In a form, separated by commas.",
}


class SimilarImage(BaseModel):
    """An image in the index: its id, the name of its file, its label, and its similarity to the query.

    If the service has a threshold, `accepted` is whether the similarity reaches it. If the index has a part of the
    image, `box` is its left, top, right and bottom, in pixels or as fractions of its width and height.
    """

    id: int
    name: str
    label: str | None
    similarity: float
    accepted: bool | None = None
    box: list[float] | None = None


class SimilarImages(BaseModel):
    """Similar images in the index, the nearest first.

    With a filter, `matching` is the number of images that match it, and `exact` is whether all of them were compared.
    """

    neighbors: list[SimilarImage]
    matching: int | None = None
    exact: bool | None = None
    threshold: float | None = None

    @classmethod
    def of(cls, answer):
        """Returns the neighbors of an `Answer` without the paths of their files."""
        threshold = answer.threshold
        images = [
            SimilarImage(
                id=neighbor.id,
                name=os.path.basename(neighbor.file),
                label=neighbor.label,
                similarity=neighbor.similarity,
                accepted=None if threshold.value is None else threshold.accepts(neighbor.similarity),
                box=neighbor.box,
            )
            for neighbor in answer.neighbors
        ]
        return cls(neighbors=images, matching=answer.matching, exact=answer.exact, threshold=threshold.value)


class Label(BaseModel):
    """The label that the neighbors vote for, and the similarity of the nearest neighbor with this label.

    If this similarity is below the threshold, or no neighbor has a label, the label is `unknown` and `accepted` is
    false. Without a threshold, `accepted` is null.
    """

    label: str
    accepted: bool | None
    similarity: float | None
    threshold: float | None = None

    @classmethod
    def of(cls, answer):
        """Returns the label of an `Answer`."""
        label, similarity = vote(answer.neighbors, answer.metric)
        least = answer.threshold.value
        accepted = label is not None and answer.threshold.accepts(similarity)
        return cls(
            label=label if accepted else UNKNOWN,
            accepted=None if least is None else accepted,
            similarity=similarity if math.isfinite(similarity) else None,
            threshold=least,
        )


class Embedding(BaseModel):
    """An embedding."""

    embedding: list[float]


class Health(BaseModel):
    """Status of the service: `ok`, `old index`, `no index` or `stuck`, and whether it requires a token.

    If the index can be searched by text, `text` is true.
    """

    status: str
    token: bool
    text: bool | None = None
    reason: str | None = None


class Refusal(BaseModel):
    """The reason why a request has no answer."""

    error: str


TEXT = {
    "type": "string",
    "minLength": 1,
    "maxLength": LONGEST_TEXT,
    "description": "Text to search for, with or without an image, if the model has a text tower.",
}
WEIGHT = {
    "type": "number",
    "minimum": 0,
    "maximum": 1,
    "description": "Weight of the text next to an image, 0.5 by default.",
}


def _body(**options):
    """Returns the OpenAPI description of a request body with an image, in a form or in JSON, and these fields."""

    def kind(name, encoding):
        # One of these fields is needed.
        needed = [{"required": [each]} for each in (name, "text") if each in (name, *options)]
        return {
            "schema": {
                "type": "object",
                "anyOf": needed,
                "properties": {name: {"type": "string", "format": encoding}, **options},
                "additionalProperties": False,
            }
        }

    content = {"multipart/form-data": kind("image", "binary"), "application/json": kind("b64", "byte")}
    return {"requestBody": {"required": True, "content": content}}


# The fields of each path next to the image.
EMBED = {"box": BOX}
LABEL = {**EMBED, "k": K, "where": WHERE}
SEARCH = {**LABEL, "text": TEXT, "text_weight": WEIGHT}
REFUSED = {
    400: "The request, its filter or the image is not valid.",
    401: "The token is missing or wrong.",
    403: "The request comes from a page of another site.",
    404: "The index does not contain the image, or its file does not exist anymore.",
    408: "The body did not arrive in time.",
    413: "The body or the image is too large.",
    415: "The content type is not supported.",
    422: "The id is not an integer.",
    503: "Too many requests are waiting, the image takes too long to decode, or the index cannot be reached.",
}


def _refusals(*statuses):
    return {status: {"model": Refusal, "description": REFUSED[status]} for status in statuses}


ERRORS = _refusals(400, 401, 403, 408, 413, 415, 503)
STUCK = {503: {"model": Health, "description": "The service cannot answer queries."}}
IMAGE = {200: {"content": {kind: {} for kind in TYPES.values()}}, **_refusals(401, 404, 422)}


# Default number of neighbors of a search.
NEIGHBORS = 10
# Default number of neighbors that vote on a label.
VOTERS = 5
# Images that are decoded at once. There are more decoders than cores, so that a small image need not wait for large
# ones.
DECODERS = max(4, min(8, os.cpu_count() or 1))
# Seconds that a stopping service waits for each of its threads.
LAST_SECONDS = 0.5


def no_threshold(searcher):
    """Returns a `Threshold` that accepts everything."""
    del searcher
    return Threshold()


def create_app(
    searcher, limits=None, *, batch_size=32, token="", hosts=(), threshold=no_threshold, text_threshold=no_threshold
):
    """Returns an ASGI app that answers requests from the index of a `Searcher`, within `limits`; see `Limits`.

    `batch_size` is the largest number of images that the model embeds at once. For `token` and `hosts`, see `Guard`.
    The functions `threshold` and `text_threshold` return the `Threshold` of a searcher's index, for images and texts.
    """
    limits, metrics, index = limits or Limits(), Metrics(searcher.manifest["metric"]), CurrentIndex(searcher)

    def decode(questions):
        ((contents, box),), reader = questions, index.searcher
        return [(reader, reader.read(contents if box is None else cropped(contents, box)))]

    def answer_batch(queries):
        metrics.batches.inc()
        metrics.images.inc(sum(query.image is not None for query in queries))
        metrics.texts.inc(sum(query.text is not None for query in queries))
        return answer_all(index.searcher, queries, threshold, text_threshold)

    # Decode each image separately, so that an image that is slow or fails does not affect the others.
    decoders = Batcher(decode, 1, threads=DECODERS)
    batcher = Batcher(answer_batch, batch_size)

    @contextlib.asynccontextmanager
    async def running(app):
        for worker in (index, decoders, batcher):
            worker.start()
        yield
        index.close()
        for worker in (decoders, batcher):
            await run_in_threadpool(worker.close, LAST_SECONDS)

    # FastAPI's documentation pages are off, because they would load scripts from the internet.
    app = FastAPI(title="tfdml", lifespan=running, docs_url=None, redoc_url=None)
    answer_errors(app)
    text, policy = page()
    _add_queries(app, index, decoders, batcher, limits, metrics)
    _add_pages(app, index, metrics, text)

    @app.get("/health", responses=STUCK)
    async def health() -> Health:
        """Reports whether the service can answer, and whether it requires a token."""
        if decoders.is_stuck(limits.decoding):
            status, reason = "stuck", "Decoding of images is stuck."
        elif batcher.is_stuck(limits.seconds):
            status, reason = "stuck", "Embedding of images is stuck."
        else:
            status = "no index" if index.is_gone else "old index" if index.problem else "ok"
            reason = index.problem
        state = Health(status=status, token=bool(token), text=index.searcher.has_texts or None, reason=reason)
        code = 503 if status in ("stuck", "no index") else 200
        return Response(state.model_dump_json(exclude_none=True), code, media_type="application/json")

    headers = [
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        # Without a referrer policy, some browsers would not name the origin of the page's own requests.
        (b"referrer-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
    ]
    return RequestCounter(Guard(BodyLimits(app, limits, metrics), token, hosts), metrics, headers)


def _add_queries(app, index, decoders, batcher, limits, metrics):
    async def ask(request, names, default_k):
        content, box, k, where, text, weight = await read_query(request, limits, names, default_k)
        # A text belongs to the model that was asked whether it embeds texts. The index may be upgraded meanwhile.
        reader, image = None if text is None else index.searcher, content
        if reader is not None and not reader.has_texts:
            raise HTTPException(400, "This index cannot be searched by text, because its model has no text tower.")
        # The model decodes all quick images of a batch in one call, which takes less time than one call per image.
        if content is not None and (box is not None or not is_quick(content)):
            try:
                async with asyncio.timeout(limits.decoding):
                    reader, image = await asyncio.wrap_future(decoders.submit((content, box)))
            except BoxError as error:
                raise HTTPException(400, f"{str(error).rstrip('.').capitalize()}.") from None
            except TimeoutError:
                reason = f"The image was not decoded within {limits.decoding:g} seconds."
                raise HTTPException(503, f"{reason} Try again, or send a smaller image.") from None
            except OSError:
                # The part of an image that cannot be decoded. A TimeoutError is an OSError as well.
                image = None
        query = Query(image, k, where, reader, text, weight)
        is_damaged = content is not None and image is None
        answer = None if is_damaged else await asyncio.wrap_future(batcher.submit(query))
        if answer is None:
            raise HTTPException(400, "The image cannot be read. Expected a complete JPEG, PNG, WebP or AVIF file.")
        if answer.problem:
            raise HTTPException(400, answer.problem)
        metrics.observe(answer)
        return answer

    @app.post("/search", openapi_extra=_body(**SEARCH), responses=ERRORS)
    async def search(request: Request) -> SimilarImages:
        """Finds the images in the index that are most similar to an image, to a text, or to both."""
        return _as_it_is(SimilarImages.of(await ask(request, SEARCH, NEIGHBORS)))

    @app.post("/label", openapi_extra=_body(**LABEL), responses=ERRORS)
    async def label(request: Request) -> Label:
        """Labels an image by the vote of the most similar images in the index, or answers `unknown`."""
        return _as_it_is(Label.of(await ask(request, LABEL, VOTERS)))

    @app.post("/embed", openapi_extra=_body(**EMBED), responses=ERRORS)
    async def embed(request: Request) -> Embedding:
        """Returns the embedding of an image."""
        return _as_it_is(Embedding(embedding=(await ask(request, EMBED, 0)).embedding.tolist()))


def _as_it_is(model):
    """Returns a response for a model that is already valid, because FastAPI would build and check it again."""
    return Response(model.model_dump_json(exclude_defaults=True), media_type="application/json")


def _add_pages(app, index, metrics, text):
    @app.get("/images/{id}", response_class=Response, responses=IMAGE)
    def image(id: int) -> Response:
        """Returns the file of an image in the index."""
        content, kind = read_image(index.searcher, id)
        return Response(content, media_type=kind)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def show_metrics() -> str:
        """Returns counters for Prometheus."""
        return PlainTextResponse(generate_latest(metrics.registry), media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False, response_class=HTMLResponse)
    async def show_page() -> str:
        return text
