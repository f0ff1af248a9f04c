"""`Measured`: counts the requests of an app."""

import time

PATHS = ("/", "/search", "/label", "/embed", "/health", "/metrics", "/openapi.json")


class Measured:
    """Middleware for an ASGI app that counts its requests, and adds headers to its responses.

    Args:
        app: the app.
        metrics: `Metrics`.
        headers: list of pairs of bytes.
    """

    def __init__(self, app, metrics, headers):
        self.app, self._metrics, self._headers = app, metrics, headers

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, status = time.monotonic(), 0

        async def noted(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", []), *self._headers]}
            await send(message)

        try:
            return await self.app(scope, receive, noted)
        finally:
            # Of a client that went before its answer there is no status.
            self._metrics.count_request(_path(scope["path"]), status or 499, time.monotonic() - start)


def _path(path):
    if path in PATHS:
        return path
    return "/images" if path.startswith("/images/") else "other"
