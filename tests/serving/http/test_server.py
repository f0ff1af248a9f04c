"""The socket that the service listens at."""

import socket

import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed; setup.py lists it")
listen = pytest.importorskip("tfdml.serving.http.server").listen


def test_answers_are_sent_at_once():
    """Otherwise each takes 40 ms longer."""
    with listen("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname()):
        connection, _ = bound.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_that_is_taken_is_named():
    with listen("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(OSError, match=f"Cannot listen at 127.0.0.1, port {port}: .*in use"):
            listen("127.0.0.1", port)
