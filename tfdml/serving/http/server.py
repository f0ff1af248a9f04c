"""Runs the service with limits on connections, bodies and access, until it is told to stop."""

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

# Most neighbors of a request.
MOST_NEIGHBORS = 1000


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of what a request may ask of the service.

    Args:
        image_bytes: most bytes of an image file.
        pixels: most pixels of an image by its header.
        waiting: most requests that wait at once, with a body that has arrived; others are told to come again.
        seconds: time that the header of a request may take, and its body; and in which a client has to take a part of
            its answer.
        decoding: seconds that an image may wait to be decoded and take for it.
        connections: most open connections; requests of others are told to come again.
    """

    image_bytes: int = 20_000_000
    pixels: int = 25_000_000
    waiting: int = 64
    seconds: float = 30.0
    decoding: float = 10.0
    connections: int = 256

    @property
    def body_bytes(self):
        """Most bytes of a body: those of an image in base64, and what stands around it."""
        return self.image_bytes * 4 // 3 + 2**16


# Paths that metrics tell apart.
PATHS = ("/", "/search", "/label", "/embed", "/health", "/metrics", "/openapi.json")
# Upper bounds of the seconds that a request took.
BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """What has happened, for Prometheus. Several threads may use it at once."""

    def __init__(self):
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("tfdml_requests", "Requests by path and status.", ["path", "status"], registry=registry)
        seconds = "Seconds from a request to its answer."
        self.seconds = Histogram("tfdml_request_seconds", seconds, buckets=BOUNDS, registry=registry)
        self.batches = Counter("tfdml_batches", "Batches that the model has embedded.", registry=registry)
        self.images = Counter("tfdml_images", "Images that the model has embedded.", registry=registry)
        waiting = "Requests that have sent their body and wait for an answer."
        self.waiting = Gauge("tfdml_waiting", waiting, registry=registry)


class RequestCounter:
    """Middleware for an ASGI app that counts its requests in `Metrics`, and adds headers to its responses."""

    def __init__(self, app, metrics, headers):
        self.app, self._metrics, self._headers = app, metrics, headers

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        # Of a client that leaves before its answer there is no status.
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
    """Returns a response with an error; `Retry_After` in the headers stands for `Retry-After`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return JSONResponse({"error": message}, status, named)


def answer_errors(app):
    """Has an app answer all errors as `refusal` does."""

    @app.exception_handler(HTTPException)
    async def of_http(request, error):
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def of_validation(request, error):
        reasons = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors())
        return refusal(422, reasons)

    @app.exception_handler(StoreError)
    async def of_the_store(request, error):
        # Its text has the address.
        logging.getLogger(__name__).warning("%s", error)
        return refusal(503, "The index is out of reach. Try again in a second.", Retry_After="1")

    @app.exception_handler(Exception)
    async def of_the_service(request, error):
        # What it was is logged, and is nobody else's business.
        return refusal(500, "The service failed; its log says why.")


class Connection(H11Protocol):
    """A connection of the service.

    If there are too many, its requests are refused; from twice as many on it is closed at once. It is also closed if
    the header of a request does not arrive in time, or the client stops reading an answer.
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
        # `pause_writing` is to tell of every byte that the client does not take.
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
        # One that has sent nothing may be a browser's, opened in advance.
        if self.conn.trailing_data[0]:
            message = f"The header did not arrive within {self._limits.seconds:g} seconds."
            body = json.dumps({"error": message}).encode()
            head = f"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()

    def _expect_less_than(self, before):
        """Ends the connection if the client has taken nothing of what waits for it since the last time."""
        left = self.transport.get_write_buffer_size()
        if left >= before:
            return self.transport.abort()
        self._answer_timer = self.loop.call_later(self._limits.seconds, self._expect_less_than, left)


def _cancel(timer):
    if timer is not None:
        timer.cancel()


# Seconds that a stopping service waits for clients that do not finish; with its threads' there are 30.
LAST_SECONDS = 29


def listen(host, port):
    """Returns a socket that is bound to an address; an OSError says why that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family)
    except OSError as error:
        raise OSError(f"Cannot listen at {host}, port {port}: {error.strerror or error}. Give other ones.") from error
    # Connections inherit it. Without it the body of an answer waits 40 ms for the client to confirm the header; asyncio
    # sets it only on sockets whose protocol is named.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


class Server(uvicorn.Server):
    """`run([bound])` answers requests until SIGTERM or Ctrl-C, then what waits, and ends as the signal ends a process.

    When it is up, it calls `on_start`.
    """

    def __init__(self, app, limits, on_start):
        config = uvicorn.Config(
            app,
            http=functools.partial(Connection, limits),
            # Its log of errors goes to standard error as it is; headers would tell its name.
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            # Nothing here asks who a client is.
            proxy_headers=False,
            timeout_graceful_shutdown=LAST_SECONDS,
        )
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets=None):
        await super().startup(sockets)
        self._on_start()


# A body that is too long is read, and dropped, up to so many times its limit: clients read no answer before they have
# sent all.
DROPPED = 4


class BodyLimits:
    """Middleware for an ASGI app that reads the bodies of requests, and limits what they take together.

    Only a request with a whole body takes a place among those that may wait: clients that send slowly lock nobody out.
    Bodies that are still being read count in the limit of all bytes.
    """

    def __init__(self, app, limits, metrics):
        self.app, self._limits = app, limits
        # The bodies of requests, by the identity of their scopes.
        self._reading, self._waiting = {}, {}
        metrics.waiting.set_function(lambda: len(self._waiting))

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self.app(scope, receive, send)
        key = id(scope)
        self._reading[key] = bytearray()
        try:
            # If no request may wait, the body is not read. While it is read, others may take the last places.
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
        """Returns the response to a request that may not wait, or None."""
        if len(self._waiting) < self._limits.waiting:
            return None
        return _busy(f"{self._limits.waiting} requests wait already. Try again in a second.")

    async def _read(self, body, scope, receive):
        """Reads a body into a bytearray. Returns the response to a request whose body cannot be used, or None."""
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
                        return _busy("Bodies of other requests take all of the memory for them. Try again in a second.")
                    else:
                        body.extend(part)
        except TimeoutError:
            reason = f"The body did not arrive within {self._limits.seconds:g} seconds."
            return refusal(408, reason, Connection="close")
        if length > limit:
            reason = f"The body has more than {limit:,} bytes; images may have {self._limits.image_bytes:,}."
            return refusal(413, reason, Connection="close")
        return None


async def _no_answer(scope, receive, send):
    """Answers a client that has gone."""


def _busy(reason):
    return refusal(503, reason, Retry_After="1", Connection="close")


# The page asks for the token, and has nothing of the index by itself.
OPEN = ("/", "/health")
# What a browser says of a request that the service's own page, or the person in front of it, makes.
OWN_SITES = (b"same-origin", b"none")


class Guard:
    """Middleware for an ASGI app that lets requests with the token pass, but none that the page of another site makes.

    The token follows `Bearer` in the header `Authorization`. If it is empty, requests without one may call the service
    by the names in `hosts`, or by any if there are none. Otherwise a page of a stranger that has its name lead to
    127.0.0.1 would read the answers (DNS rebinding).
    """

    def __init__(self, app, token="", hosts=()):
        self.app, self._expected, self._hosts = app, f"Bearer {token}".encode() if token else b"", frozenset(hosts)

    async def __call__(self, scope, receive, send):
        wrong = self._wrong(scope) if scope["type"] == "http" else None
        return await (wrong or self.app)(scope, receive, send)

    def _wrong(self, scope):
        headers = dict(scope["headers"])
        # Pages of others do not have the token.
        if not self._expected and scope["method"] == "POST" and _is_of_another_site(headers):
            message = "A page of another site asks; only the service's own page and programs may."
            return refusal(403, message, Connection="close")
        if not self._expected:
            host = _host(headers.get(b"host", b"").decode("latin-1"))
            if self._hosts and host not in self._hosts:
                return refusal(403, f"The service is not called {host!r}; expected {', '.join(sorted(self._hosts))}.")
        elif scope["path"] not in OPEN and not hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
            message = "Expected the header Authorization: Bearer TOKEN, with the token of the service."
            return refusal(401, message, WWW_Authenticate="Bearer", Connection="close")
        return None


def _is_of_another_site(headers):
    """Whether a browser sends a request for a page of another origin. Pages cannot change what browsers say of them."""
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site is not None:
        # The browser compares with the address that it has asked, which a proxy may change.
        return site not in OWN_SITES
    # Older browsers, and all without TLS on other machines, say the origin only, which has no port if that is usual.
    return origin is not None and origin.partition(b"://")[2].lower() != headers.get(b"host", b"").lower()


def _host(text):
    """Returns the name in a header `Host`, without the port."""
    try:
        return urlsplit(f"//{text}").hostname or ""
    except ValueError:
        return ""
