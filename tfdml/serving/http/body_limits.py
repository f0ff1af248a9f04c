"""`BodyLimits`: reads bodies before the app does, and refuses those that are long, slow or too many."""

import asyncio

from tfdml.serving.http.error_answers import refusal

# A body that is too long is read, and dropped, up to so many times its limit: clients read no answer before they have
# sent all.
DROPPED = 4


class BodyLimits:
    """Middleware for an ASGI app.

    Args:
        app: the app, which gets a body at once.
        limits: `Limits`.
        metrics: `Metrics`.
    """

    def __init__(self, app, limits, metrics):
        self.app, self._limits, self._metrics = app, limits, metrics

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self.app(scope, receive, send)
        if self._metrics.waiting >= self._limits.waiting:
            reason = f"{self._limits.waiting} requests wait already. Try again in a second."
            return await refusal(503, reason, Retry_After="1", Connection="close")(scope, receive, send)
        self._metrics.waiting += 1
        try:
            await self._pass_on(scope, receive, send)
        finally:
            self._metrics.waiting -= 1

    async def _pass_on(self, scope, receive, send):
        limit = self._limits.body_bytes
        try:
            async with asyncio.timeout(self._limits.seconds):
                body, length = await self._read(scope, receive)
        except TimeoutError:
            reason = f"The body did not arrive within {self._limits.seconds:g} seconds."
            return await refusal(408, reason, Connection="close")(scope, receive, send)
        if length is None:
            return None
        if length > limit:
            reason = f"The body has more than {limit:,} bytes; images may have {self._limits.image_bytes:,}."
            return await refusal(413, reason, Connection="close")(scope, receive, send)
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again():
            return unread.pop() if unread else await receive()

        return await self.app(scope, receive_again, send)

    async def _read(self, scope, receive):
        """Returns a body and its length, which is None if the client has gone; of a body too long only the length."""
        limit, body, length = self._limits.body_bytes, bytearray(), _declared(scope)
        if length > DROPPED * limit:
            return b"", length
        length, more = 0, True
        while more and length <= DROPPED * limit:
            message = await receive()
            if message["type"] == "http.disconnect":
                return b"", None
            part, more = message.get("body", b""), message.get("more_body", False)
            length += len(part)
            if length > limit:
                body.clear()
            else:
                body.extend(part)
        return bytes(body), length


def _declared(scope):
    """Returns the length that a request says to have; 0 if it says none."""
    found = dict(scope["headers"]).get(b"content-length", b"0")
    return int(found) if found.isdigit() else 0
