"""`Guard`: who may use the service."""

import hmac
from urllib.parse import urlsplit

from tfdml.serving.http.error_answers import refusal

# The page asks for the token, and has nothing of the index by itself.
OPEN = ("/", "/health")
# What a browser says of a request that the service's own page, or the person in front of it, makes.
OWN_SITES = (b"same-origin", b"none")


class Guard:
    """Middleware for an ASGI app that lets requests with the token pass, but none that the page of another site makes.

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
