"""Runs an app until it is told to stop."""

import functools
import socket

import uvicorn

from tfdml.serving.http.connection import Connection

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

    Args:
        app: ASGI app.
        limits: `Limits`.
        on_start: function that is called when the service is up.
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
