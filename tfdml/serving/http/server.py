"""Runs the service with limits on connections, bodies and access, until it receives a signal."""

import asyncio
import dataclasses
import functools
import hmac
import json
import logging
import socket
import time
from urllib.parse import urlsplit

import uvicorn
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.h11_impl import H11Protocol

from tfdml.serving.index.stores.store import StoreError

# Maximum number of neighbors per request.
MOST_NEIGHBORS = 1000


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits on what a request may ask of the service.

    Args:
        image_bytes: Integer. Maximum size of an image file. Defaults to `20_000_000`.
        pixels: Integer. Maximum number of pixels that an image's header may declare. Defaults to `25_000_000`.
        waiting: Integer. Maximum number of requests that wait for an answer after their body has arrived. Other
            requests are asked to try again later. Defaults to `64`.
        seconds: Float. Time limit for the header of a request, for its body, and for a client to receive a part of its
            answer. Defaults to `30.0`.
        decoding: Float. Seconds that decoding an image may take, including the time that it waits. Defaults to `10.0`.
        connections: Integer. Maximum number of open connections. Requests on other connections are asked to try again
            later. Defaults to `256`.
    """

    image_bytes: int = 20_000_000
    pixels: int = 25_000_000
    waiting: int = 64
    seconds: float = 30.0
    decoding: float = 10.0
    connections: int = 256

    @property
    def body_bytes(self):
        """Maximum size of a body: an image in base64 and the fields around it."""
        return self.image_bytes * 4 // 3 + 2**16


# Paths that the metrics distinguish.
PATHS = ("/", "/search", "/label", "/embed", "/health", "/metrics", "/openapi.json")
# Upper bounds of the histogram buckets, in seconds per request.
BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Upper bounds of the histogram buckets of similarities: cosines, or negative Euclidean distances.
SIMILARITIES = {
    "cosine": (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99),
    "euclidean": (-64.0, -32.0, -16.0, -8.0, -4.0, -2.0, -1.0, -0.5, -0.25, -0.125, -0.0625),
}


class Metrics:
    """Counters, gauges and histograms for Prometheus. Several threads may use them at once.

    `metric` is the one of the index, `cosine` or `euclidean`.
    """

    def __init__(self, metric="cosine"):
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("tfdml_requests", "Requests by path and status.", ["path", "status"], registry=registry)
        seconds = "Seconds from a request to its answer."
        self.seconds = Histogram("tfdml_request_seconds", seconds, buckets=BOUNDS, registry=registry)
        self.batches = Counter("tfdml_batches", "Batches that the model has embedded.", registry=registry)
        self.images = Counter("tfdml_images", "Images that the model has embedded.", registry=registry)
        self.texts = Counter("tfdml_texts", "Texts that the model has embedded.", registry=registry)
        waiting = "Requests with a complete body that wait for an answer."
        self.waiting = Gauge("tfdml_waiting", waiting, registry=registry)
        nearest = "Similarity of the nearest image to each query image without a filter."
        bounds = SIMILARITIES[metric]
        self.nearest = Histogram("tfdml_nearest_similarity", nearest, buckets=bounds, registry=registry)
        unknown = "Query images without a filter that have no image above the threshold."
        self.unknown = Counter("tfdml_unknown_queries", unknown, registry=registry)

    def observe(self, answer):
        """Counts the `Answer` to a query image, unless a filter hid images from it.

        Texts are not counted, because their similarities have another scale.
        """
        if answer.is_of_image and answer.matching is None and answer.neighbors:
            nearest = answer.neighbors[0].similarity
            self.nearest.observe(nearest)
            self.unknown.inc(not answer.threshold.accepts(nearest))


class RequestCounter:
    """ASGI middleware that counts requests in `Metrics` and adds headers to responses."""

    def __init__(self, app, metrics, headers):
        self.app, self._metrics, self._headers = app, metrics, headers

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        # If a client leaves before its answer, the status stays 499.
        start, status, path = time.monotonic(), 499, scope["path"]
        if path not in PATHS:
            path = "/images" if path.startswith("/images/") else "other"

        async def send_with_headers(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", []), *self._headers]}
            await send(message)

        try:
            return await self.app(scope, receive, send_with_headers)
        finally:
            self._metrics.requests.labels(path, status).inc()
            self._metrics.seconds.observe(time.monotonic() - start)


def refusal(status, message, **headers):
    """Returns a response with an error. The keyword `Retry_After` becomes the header `Retry-After`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return JSONResponse({"error": message}, status, named)


def answer_errors(app):
    """Makes an app answer all errors in the format of `refusal`."""

    @app.exception_handler(HTTPException)
    async def of_http(request, error):
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def of_validation(request, error):
        reasons = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors())
        return refusal(422, reasons)

    @app.exception_handler(StoreError)
    async def of_the_store(request, error):
        # The error is only logged, because it contains the address of the index.
        logging.getLogger(__name__).warning("%s", error)
        return refusal(503, "The index cannot be reached. Try again in a second.", Retry_After="1")

    @app.exception_handler(Exception)
    async def of_the_service(request, error):
        # The error is logged, but its details are not for clients.
        return refusal(500, "The service failed. See its log for the reason.")


class Connection(H11Protocol):
    """A connection to the service.

    If there are too many connections, requests on the new ones are refused. If there are more than twice as many, new
    ones are closed at once. A connection is also closed if a request's header does not arrive in time, or if the client
    stops reading an answer.
    """

    def __init__(self, limits, **kwargs):
        super().__init__(**kwargs)
        self._limits = limits
        self._header_timer = self._answer_timer = None

    def connection_made(self, transport):
        super().connection_made(transport)
        most = self._limits.connections
        if len(self.connections) > 2 * most:
            return transport.abort()
        if len(self.connections) > most:
            message = f"{most} connections are open already. Try again in a second."
            self.app = refusal(503, message, Retry_After="1", Connection="close")
        # With a limit of 0, `pause_writing` is called for every byte that the client has not received.
        transport.set_write_buffer_limits(0)
        self._header_timer = self.loop.call_later(self._limits.seconds, self._no_header)

    def data_received(self, data):
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            # `BodyLimits` watches the rest of the request.
            _cancel(self._header_timer)
            self._header_timer = None
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(self._limits.seconds, self._no_header)

    def pause_writing(self):
        super().pause_writing()
        self._expect_less_than(float("inf"))

    def resume_writing(self):
        super().resume_writing()
        _cancel(self._answer_timer)

    def connection_lost(self, exc):
        _cancel(self._header_timer)
        _cancel(self._answer_timer)
        super().connection_lost(exc)

    def _no_header(self):
        # A connection without data may be one that a browser has opened in advance, so it gets no error.
        if self.conn.trailing_data[0]:
            message = f"The header did not arrive within {self._limits.seconds:g} seconds."
            body = json.dumps({"error": message}).encode()
            head = f"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()

    def _expect_less_than(self, before):
        """Aborts the connection if the client has received none of the waiting data since the last check."""
        left = self.transport.get_write_buffer_size()
        if left >= before:
            return self.transport.abort()
        self._answer_timer = self.loop.call_later(self._limits.seconds, self._expect_less_than, left)


def _cancel(timer):
    if timer is not None:
        timer.cancel()


# Seconds that a stopping service waits for slow clients. Together with the threads' last seconds, it is 30.
LAST_SECONDS = 29


def listen(host, port):
    """Returns a socket that is bound to an address. Raises an OSError with the reason if that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family)
    except OSError as error:
        raise OSError(
            f"Cannot listen at {host}, port {port}: {error.strerror or error}. Use another address or port."
        ) from error
    # Connections inherit this option. Without it, the body of an answer waits 40 ms until the client confirms the
    # header, and asyncio only sets it on sockets with an explicit protocol.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


class Server(uvicorn.Server):
    """Uvicorn server that stops at SIGTERM or Ctrl-C after it has answered the waiting requests.

    `run([bound])` then ends the process the way the signal does. The server calls `on_start` when it is ready.
    """

    def __init__(self, app, limits, on_start):
        config = uvicorn.Config(
            app,
            http=functools.partial(Connection, limits),
            # Errors go to standard error unchanged. The header with the server's name is off.
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            # The service does not use client addresses.
            proxy_headers=False,
            timeout_graceful_shutdown=LAST_SECONDS,
        )
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets=None):
        await super().startup(sockets)
        self._on_start()


# Bodies up to this many times the limit are read and dropped, because clients only read an answer after they have sent
# everything.
DROPPED = 4


class BodyLimits:
    """ASGI middleware that reads request bodies and limits their total size.

    Only a request with a complete body occupies one of the waiting places, so slow clients do not lock others out.
    Bodies that are still being read count toward the limit on all bytes.
    """

    def __init__(self, app, limits, metrics):
        self.app, self._limits = app, limits
        # Bodies of requests by the id of their scope.
        self._reading, self._waiting = {}, {}
        metrics.waiting.set_function(lambda: len(self._waiting))

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self.app(scope, receive, send)
        key = id(scope)
        self._reading[key] = bytearray()
        try:
            # Check before reading, so that no body is read in vain, and again after it, because others may have taken
            # the last places meanwhile.
            refused = self._no_place() or await self._read(self._reading[key], scope, receive) or self._no_place()
            if refused:
                return await refused(scope, receive, send)
            self._waiting[key] = bytes(self._reading.pop(key))
            unread = [{"type": "http.request", "body": self._waiting[key], "more_body": False}]

            async def receive_again():
                return unread.pop() if unread else await receive()

            await self.app(scope, receive_again, send)
        finally:
            self._reading.pop(key, None)
            self._waiting.pop(key, None)

    def _no_place(self):
        """Returns the refusal if no further request may wait, or None."""
        if len(self._waiting) < self._limits.waiting:
            return None
        return _busy(f"{self._limits.waiting} requests are waiting already. Try again in a second.")

    async def _read(self, body, scope, receive):
        """Reads a body into a bytearray. Returns the refusal if the body cannot be used, or None."""
        limit, most = self._limits.body_bytes, self._limits.waiting * self._limits.body_bytes
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        length = int(declared) if declared.isdigit() else 0
        more, length = (False, length) if length > DROPPED * limit else (True, 0)
        try:
            async with asyncio.timeout(self._limits.seconds):
                while more and length <= DROPPED * limit:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return _no_answer
                    part, more = message.get("body", b""), message.get("more_body", False)
                    length += len(part)
                    if length > limit:
                        body.clear()
                    elif sum(map(len, [*self._reading.values(), *self._waiting.values(), part])) > most:
                        return _busy(
                            "The bodies of other requests occupy all memory that is reserved for them. Try "
                            "again in a second."
                        )
                    else:
                        body.extend(part)
        except TimeoutError:
            reason = f"The body did not arrive within {self._limits.seconds:g} seconds."
            return refusal(408, reason, Connection="close")
        if length > limit:
            reason = f"The body has more than {limit:,} bytes. An image may have at most {self._limits.image_bytes:,}."
            return refusal(413, reason, Connection="close")
        return None


async def _no_answer(scope, receive, send):
    """Does nothing, because the client has gone."""


def _busy(reason):
    return refusal(503, reason, Retry_After="1", Connection="close")


# Open to everyone: the page asks for the token itself, and contains nothing from the index.
OPEN = ("/", "/health")
# Values that browsers send for requests of the service's own page or of the user.
OWN_SITES = (b"same-origin", b"none")


class Guard:
    """ASGI middleware that requires the token, and refuses requests from pages of other sites.

    The header `Authorization` must contain `Bearer` and the token. If the token is empty, requests without a token are
    accepted, but only under the host names in `hosts`, or under any name if `hosts` is empty. Without this check, a
    foreign page with a domain that resolves to 127.0.0.1 could read the answers (DNS rebinding).
    """

    def __init__(self, app, token="", hosts=()):
        self.app, self._expected, self._hosts = app, f"Bearer {token}".encode() if token else b"", frozenset(hosts)

    async def __call__(self, scope, receive, send):
        wrong = self._wrong(scope) if scope["type"] == "http" else None
        return await (wrong or self.app)(scope, receive, send)

    def _wrong(self, scope):
        headers = dict(scope["headers"])
        # With a token, this check is not needed, because other sites do not know the token.
        if not self._expected and scope["method"] == "POST" and _is_of_another_site(headers):
            message = (
                "The request comes from a page of another site. Only the service's own page and programs may "
                "send requests."
            )
            return refusal(403, message, Connection="close")
        if not self._expected:
            host = _host(headers.get(b"host", b"").decode("latin-1"))
            if self._hosts and host not in self._hosts:
                return refusal(
                    403,
                    f"The service does not answer under the host name {host!r}. Use one of "
                    f"{', '.join(sorted(self._hosts))}.",
                )
        elif scope["path"] not in OPEN and not hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
            message = "The header must be Authorization: Bearer TOKEN, with the token of the service."
            return refusal(401, message, WWW_Authenticate="Bearer", Connection="close")
        return None


def _is_of_another_site(headers):
    """Returns whether a browser sends the request for a page of another origin. Pages cannot change these headers."""
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site is not None:
        # The browser compares with the address that it has requested. A proxy may change the Host header.
        return site not in OWN_SITES
    # Older browsers, and all browsers without TLS on other machines, only send the origin, which omits a default port.
    return origin is not None and origin.partition(b"://")[2].lower() != headers.get(b"host", b"").lower()


def _host(text):
    """Returns the host name in a `Host` header, without the port."""
    try:
        return urlsplit(f"//{text}").hostname or ""
    except ValueError:
        return ""
