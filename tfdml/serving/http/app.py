"""The service as an ASGI app: search, labels, embeddings, images of the index, health, metrics and the page."""

import asyncio
import contextlib
import os

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from starlette.concurrency import run_in_threadpool

from pipelines.checks import is_quick
from tfdml.serving.http.batching import Batcher
from tfdml.serving.http.body_limits import BodyLimits
from tfdml.serving.http.current_index import CurrentIndex
from tfdml.serving.http.error_answers import answer_errors
from tfdml.serving.http.guard import Guard
from tfdml.serving.http.image_files import read_image
from tfdml.serving.http.limits import Limits
from tfdml.serving.http.measured import Measured
from tfdml.serving.http.metrics import Metrics
from tfdml.serving.http.queries import Query, answer_all
from tfdml.serving.http.reading import read_query
from tfdml.serving.http.schema import EMBED, ERRORS, IMAGE, SEARCH, STUCK, Embedding, Health, Label, Neighbors
from tfdml.serving.http.search_page import page
from tfdml.serving.index.threshold import Threshold

# Neighbors of a request that names no number.
NEIGHBORS = 10
# Of one that asks for a label: those that vote.
VOTERS = 5
# Images that are decoded at once: more than cores, so that a small one need not wait for the end of large ones.
DECODERS = max(4, min(8, os.cpu_count() or 1))
# Seconds that a service that ends waits for each of its threads.
LAST_SECONDS = 0.5


def create_app(searcher, limits=None, *, batch_size=32, token="", hosts=(), threshold=lambda searcher: Threshold()):
    """Returns an ASGI app that answers with what a searcher finds.

    Args:
        searcher: `tfdml.serving.Searcher`.
        limits: `Limits`; None: the default ones.
        batch_size: most images that the model embeds at once.
        token, hosts: see `Guard`.
        threshold: function from a searcher to the `Threshold` of its index.
    """
    limits, metrics, index = limits or Limits(), Metrics(), CurrentIndex(searcher)

    def answer_batch(queries):
        metrics.count_batch(len(queries))
        return answer_all(index.searcher, queries, threshold)

    def decode(contents):
        searcher = index.searcher
        return [(searcher, searcher.read(contents[0]))]

    # Each image alone: one that takes long, or fails, is not the others' business.
    decoders = Batcher(decode, 1, threads=DECODERS)
    batcher = Batcher(answer_batch, batch_size)

    @contextlib.asynccontextmanager
    async def running(app):
        for each in (index, decoders, batcher):
            each.start()
        yield
        index.close()
        for each in (decoders, batcher):
            await run_in_threadpool(each.close, LAST_SECONDS)

    def trouble():
        if decoders.is_stuck(limits.decoding):
            return "stuck", "Images are not decoded."
        if batcher.is_stuck(limits.seconds):
            return "stuck", "Images are not embedded."
        if index.is_gone:
            return "no index", index.problem
        return ("old index", index.problem) if index.problem else ("ok", None)

    # Its pages for people would load scripts from a network.
    app = FastAPI(title="tfdml", lifespan=running, docs_url=None, redoc_url=None)
    answer_errors(app)
    _add_queries(app, decoders, batcher, limits)
    text, policy = page()
    _add_pages(app, index, metrics, text)
    _add_health(app, trouble, bool(token))
    headers = [
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        # Without any, some browsers would not name the origin of the page's own requests.
        (b"referrer-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
    ]
    return Measured(Guard(BodyLimits(app, limits, metrics), token, hosts), metrics, headers)


def _add_queries(app, decoders, batcher, limits):
    async def decoded(content):
        if is_quick(content):
            # The model decodes those of a batch in one call, which takes less time than a call for each.
            return None, content
        try:
            async with asyncio.timeout(limits.decoding):
                return await asyncio.wrap_future(decoders.submit(content))
        except TimeoutError:
            reason = f"The image was not decoded within {limits.decoding:g} seconds. Try again, or send a smaller one."
            raise HTTPException(503, reason) from None

    async def ask(request, default_k):
        content, k, where = await read_query(request, limits, default_k)
        reader, image = await decoded(content)
        found = None if image is None else await asyncio.wrap_future(batcher.submit(Query(image, k, where, reader)))
        if found is None:
            raise HTTPException(400, "The image cannot be read: expected a whole JPEG, PNG, WebP or AVIF.")
        if found.problem:
            raise HTTPException(400, found.problem)
        return found

    @app.post("/search", openapi_extra=SEARCH, responses=ERRORS)
    async def search(request: Request) -> Neighbors:
        """Finds the images of the index that are most similar to an image."""
        return _as_it_is(Neighbors.of(await ask(request, NEIGHBORS)))

    @app.post("/label", openapi_extra=SEARCH, responses=ERRORS)
    async def label(request: Request) -> Label:
        """Labels an image by the vote of the images of the index that are most similar to it, or says `unknown`."""
        return _as_it_is(Label.of(await ask(request, VOTERS)))

    @app.post("/embed", openapi_extra=EMBED, responses=ERRORS)
    async def embed(request: Request) -> Embedding:
        """Embeds an image."""
        return _as_it_is(Embedding(embedding=(await ask(request, 0)).embedding.tolist()))


def _as_it_is(found):
    """Returns the response of a model that is valid already; FastAPI would build and check it once more."""
    return Response(found.model_dump_json(exclude_defaults=True), media_type="application/json")


def _add_health(app, trouble, asks_token):
    @app.get("/health", responses=STUCK)
    async def health() -> Health:
        """Says whether the service answers, and whether it asks for a token."""
        status, reason = trouble()
        found = Health(status=status, token=asks_token, reason=reason)
        text = found.model_dump_json(exclude_none=True)
        return Response(text, 503 if status in ("stuck", "no index") else 200, media_type="application/json")


def _add_pages(app, index, metrics, text):
    @app.get("/images/{id}", response_class=Response, responses=IMAGE)
    def image(id: int) -> Response:
        """Returns the file of an image of the index."""
        content, kind = read_image(index.searcher, id)
        return Response(content, media_type=kind)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def show_metrics() -> str:
        """Returns counters for Prometheus."""
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False, response_class=HTMLResponse)
    async def show_page() -> str:
        return text
