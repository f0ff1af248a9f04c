"""`Limits`: what a request may ask of the service."""

import dataclasses

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
