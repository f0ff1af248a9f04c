"""The service as an ASGI app: search, embeddings, images of the index, health, metrics and the page."""

import asyncio
import contextlib

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from starlette.concurrency import run_in_threadpool

from tfdml.serving.http.batching import Batcher
from tfdml.serving.http.body_limits import BodyLimits
from tfdml.serving.http.errors import answer_errors
from tfdml.serving.http.guard import Guard
from tfdml.serving.http.image_files import read_image
from tfdml.serving.http.limits import Limits
from tfdml.serving.http.measured import Measured
from tfdml.serving.http.metrics import Metrics
from tfdml.serving.http.page import page
from tfdml.serving.http.queries import answer
from tfdml.serving.http.reading import read_query
from tfdml.serving.http.schema import EMBED, ERRORS, IMAGE, SEARCH, Embedding, Health, Neighbors

# Neighbors of a request that names no number.
NEIGHBORS = 10


def create_app(searcher, limits=None, *, batch_size=32, token="", hosts=()):
    """Returns an ASGI app that answers with what a searcher finds.

    Args:
        searcher: `tfdml.serving.Searcher`.
        limits: `Limits`; None: the default ones.
        batch_size: most images that the model embeds at once.
        token, hosts: see `Guard`.
    """
    limits, metrics = limits or Limits(), Metrics()

    def answer_batch(queries):
        metrics.count_batch(len(queries))
        return answer(searcher, queries)

    batcher = Batcher(answer_batch, batch_size)

    @contextlib.asynccontextmanager
    async def running(app):
        batcher.start()
        yield
        await run_in_threadpool(batcher.close)

    # Its pages for people would load scripts from a network.
    app = FastAPI(title="tfdml", lifespan=running, docs_url=None, redoc_url=None)
    answer_errors(app)
    _add_queries(app, batcher, limits)
    text, policy = page()
    _add_pages(app, searcher, metrics, text, bool(token))
    headers = [
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
    ]
    return Measured(Guard(BodyLimits(app, limits, metrics), token, hosts), metrics, headers)


def _add_queries(app, batcher, limits):
    async def ask(request, default_k):
        query = await read_query(request, limits, default_k)
        found = await asyncio.wrap_future(batcher.submit(query))
        if found is None:
            raise HTTPException(400, "The image cannot be read: expected a whole JPEG, PNG or still WebP.")
        return found

    @app.post("/search", openapi_extra=SEARCH, responses=ERRORS)
    async def search(request: Request) -> Neighbors:
        """Finds the images of the index that are most similar to an image."""
        return _as_it_is(Neighbors.of((await ask(request, NEIGHBORS)).neighbors))

    @app.post("/embed", openapi_extra=EMBED, responses=ERRORS)
    async def embed(request: Request) -> Embedding:
        """Embeds an image."""
        return _as_it_is(Embedding(embedding=(await ask(request, 0)).embedding.tolist()))


def _as_it_is(found):
    """Returns the response of a model that is valid already; FastAPI would build and check it once more."""
    return Response(found.model_dump_json(), media_type="application/json")


def _add_pages(app, searcher, metrics, text, asks_token):
    @app.get("/images/{id}", response_class=Response, responses=IMAGE)
    def image(id: int) -> Response:
        """Returns the file of an image of the index."""
        content, kind = read_image(searcher, id)
        return Response(content, media_type=kind)

    @app.get("/health")
    async def health() -> Health:
        """Says that the service is up, and whether it asks for a token."""
        return Health(status="ok", token=asks_token)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def show_metrics() -> str:
        """Returns counters for Prometheus."""
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False, response_class=HTMLResponse)
    async def show_page() -> str:
        return text
