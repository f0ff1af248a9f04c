"""`BodyLimits`: reads bodies before the app does, and refuses those that are long, slow or too many."""

import asyncio

from tfdml.serving.http.error_answers import refusal

# A body that is too long is read, and dropped, up to so many times its limit: clients read no answer before they have
# sent all.
DROPPED = 4


class _Full(Exception):
    """The bodies that are held have too many bytes together."""


class BodyLimits:
    """Middleware for an ASGI app.

    Only requests with a whole body take a place among those that may wait: clients that send slowly lock nobody out.
    What all bodies hold together is limited, those that are still being read included.

    Args:
        app: the app, which gets a body at once.
        limits: `Limits`.
        metrics: `Metrics`.
    """

    def __init__(self, app, limits, metrics):
        self.app, self._limits, self._metrics = app, limits, metrics
        # The bytes of all bodies, and their limit: what the largest number of waiting requests can have.
        self._held, self._most = 0, limits.waiting * limits.body_bytes

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self.app(scope, receive, send)
        limit = self._limits.body_bytes
        # If no request may wait, the body is not read at all.
        if self._metrics.waiting >= self._limits.waiting:
            return await self._too_many()(scope, receive, send)
        try:
            async with asyncio.timeout(self._limits.seconds):
                body, length = await self._read(scope, receive)
        except TimeoutError:
            reason = f"The body did not arrive within {self._limits.seconds:g} seconds."
            return await refusal(408, reason, Connection="close")(scope, receive, send)
        except _Full:
            reason = "The bodies of other requests take all of the memory for them. Try again in a second."
            return await _busy(reason)(scope, receive, send)
        if length is None:
            return None
        if length > limit:
            reason = f"The body has more than {limit:,} bytes; images may have {self._limits.image_bytes:,}."
            return await refusal(413, reason, Connection="close")(scope, receive, send)
        # Others may have taken the last places in the meantime.
        if self._metrics.waiting >= self._limits.waiting:
            return await self._too_many()(scope, receive, send)
        self._metrics.waiting += 1
        # `_read` returns without a break in between, so that nobody takes these bytes before.
        length = len(body)
        self._held += length
        try:
            await self._pass_on(body, scope, receive, send)
        finally:
            self._held -= length
            self._metrics.waiting -= 1

    def _too_many(self):
        return _busy(f"{self._limits.waiting} requests wait already. Try again in a second.")

    async def _pass_on(self, body, scope, receive, send):
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again():
            return unread.pop() if unread else await receive()

        await self.app(scope, receive_again, send)

    async def _read(self, scope, receive):
        """Returns a body and its length, which is None if the client has gone; of a body too long only the length."""
        limit, body, length = self._limits.body_bytes, bytearray(), _declared(scope)
        if length > DROPPED * limit:
            return b"", length
        length, more = 0, True
        try:
            while more and length <= DROPPED * limit:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return b"", None
                part, more = message.get("body", b""), message.get("more_body", False)
                length += len(part)
                if length > limit:
                    self._held -= len(body)
                    body.clear()
                elif self._held + len(part) > self._most:
                    raise _Full
                else:
                    body.extend(part)
                    self._held += len(part)
            return bytes(body), length
        finally:
            self._held -= len(body)


def _busy(reason):
    return refusal(503, reason, Retry_After="1", Connection="close")


def _declared(scope):
    """Returns the length that a request says to have; 0 if it says none."""
    found = dict(scope["headers"]).get(b"content-length", b"0")
    return int(found) if found.isdigit() else 0
