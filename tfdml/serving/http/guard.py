"""`Guard`: who may use the service."""

import hmac
from urllib.parse import urlsplit

from tfdml.serving.http.errors import refusal

# The page asks for the token, and has nothing of the index by itself.
OPEN = ("/", "/health")


class Guard:
    """Middleware for an ASGI app that lets requests with the token pass.

    Args:
        app: the app.
        token: what follows `Bearer` in the header `Authorization`; empty: no token is asked for.
        hosts: names by which requests without a token may call the service; empty: any. A page of a stranger that has
            its name lead to 127.0.0.1 would read the answers otherwise (DNS rebinding).
    """

    def __init__(self, app, token="", hosts=()):
        self.app, self._expected, self._hosts = app, f"Bearer {token}".encode() if token else b"", frozenset(hosts)

    async def __call__(self, scope, receive, send):
        wrong = self._wrong(scope) if scope["type"] == "http" else None
        return await (wrong or self.app)(scope, receive, send)

    def _wrong(self, scope):
        headers = dict(scope["headers"])
        if not self._expected:
            host = _host(headers.get(b"host", b"").decode("latin-1"))
            if self._hosts and host not in self._hosts:
                return refusal(403, f"The service is not called {host!r}; expected {', '.join(sorted(self._hosts))}.")
        elif scope["path"] not in OPEN and not hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
            message = "Expected the header Authorization: Bearer TOKEN, with the token of the service."
            return refusal(401, message, WWW_Authenticate="Bearer", Connection="close")
        return None


def _host(text):
    """Returns the name in a header `Host`, without the port."""
    try:
        return urlsplit(f"//{text}").hostname or ""
    except ValueError:
        return ""
