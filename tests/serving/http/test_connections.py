"""The socket that the service listens at: connections are bounded, and those whose clients stop are closed."""

import contextlib
import http.client
import json
import socket
import threading

import pytest

from tests.commands import until
from tests.serving.http.fake_service import REASON
from tfdml.serving.http.server import Limits

server = pytest.importorskip("tfdml.serving.http.server", reason=REASON)

ASK = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
# More than the buffers of sockets hold.
HUGE = 50_000_000


async def app(scope, receive, send):
    """Answers `/` at once, and `/huge` with many bytes."""
    body = bytes(HUGE) if scope["path"] == "/huge" else b"yes"
    head = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def service(**limits):
    """Yields a function that connects, and the server."""
    started, opened = server.Server(app, Limits(**limits), lambda: None), []

    def connect():
        opened.append(socket.create_connection(bound.getsockname(), 60))
        return opened[-1]

    with server.listen("127.0.0.1", 0) as bound:
        thread = threading.Thread(target=started.run, args=[[bound]])
        thread.start()
        try:
            until(lambda: started.started)
            yield connect, started
        finally:
            for each in opened:
                each.close()
            started.should_exit = True
            thread.join()


def ask(connection, request=ASK):
    """Returns the status and the body of the answer."""
    connection.sendall(request)
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer.status, answer.read()


def assert_refused(answer, status, words):
    assert answer[0] == status and words in json.loads(answer[1])["error"]


def ended(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_connections_that_are_too_many_are_refused_or_closed():
    with service(connections=2) as (connect, started):
        first, second = connect(), connect()
        assert ask(first) == ask(second) == (200, b"yes")
        third = connect()
        assert_refused(ask(third), 503, "2 connections are open already")
        assert ended(third) and ask(first)[1] == b"yes"
        waiting = [connect(), connect()]
        until(lambda: len(started.server_state.connections) == 4)
        assert ended(connect())
        for each in (second, *waiting):
            each.close()
        until(lambda: len(started.server_state.connections) == 1)
        assert ask(connect())[1] == b"yes"


def test_a_header_that_does_not_arrive():
    with service(seconds=0.3) as (connect, _):
        assert ended(connect())
        slow = connect()
        assert_refused(ask(slow, ASK[:10]), 408, "The header did not arrive within 0.3 seconds")
        assert ended(slow)
        # After a request that was answered.
        second = connect()
        assert ask(second)[1] == b"yes"
        assert_refused(ask(second, ASK[:10]), 408, "The header did not arrive")


def test_an_answer_that_is_not_read():
    with service(seconds=0.1) as (connect, started):
        connect().sendall(b"GET /huge HTTP/1.1\r\nhost: a\r\n\r\n")
        until(lambda: started.server_state.total_requests)
        until(lambda: not started.server_state.connections)


def test_an_answer_that_is_read_slowly_arrives():
    with service(seconds=0.5) as (connect, _):
        slow = connect()
        slow.sendall(b"GET /huge HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        count, pause = 0, threading.Event()
        while part := slow.recv(300_000):
            count += len(part)
            pause.wait(0.005)
        assert count > HUGE


def test_answers_are_sent_at_once():
    """Otherwise each takes 40 ms longer."""
    with server.listen("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname()):
        connection, _ = bound.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_that_is_taken_is_named():
    with server.listen("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(OSError, match=f"Cannot listen at 127.0.0.1, port {port}: .*in use"):
            server.listen("127.0.0.1", port)
