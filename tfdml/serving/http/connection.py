"""`Connection`: one of a bounded number of connections, which ends where its client stops."""

import json

from uvicorn.protocols.http.h11_impl import H11Protocol

from tfdml.serving.http.error_answers import refusal


class Connection(H11Protocol):
    """A connection of the service.

    If there are too many, its requests are refused; from twice as many on it is closed at once. It is also closed if
    the header of a request does not arrive in time, or the client stops reading an answer.

    Args:
        limits: `Limits`.
        **kwargs: of the base class.
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
