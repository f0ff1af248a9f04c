"""Calls of Qdrant's client, and what it says of errors, in one line."""

import time

from tfdml.serving.index.stores.store_error import StoreError

# Seconds before a call is tried again.
PAUSES = (0.2, 1.0)


def called(store, function, tries, *arguments, **named):
    """Returns what a call returns; a `StoreError` if the server does not answer, a ValueError if it refuses.

    Args:
        store: for the message.
        function: of the client.
        tries: how often a call is tried that may be repeated: without an answer, nobody knows whether it was done.
        *arguments, **named: of the function.
    """
    import httpx
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    for pause in [*PAUSES[: tries - 1], None]:
        try:
            return function(*arguments, **named)
        except (ResponseHandlingException, httpx.HTTPError, ConnectionError) as error:
            reason = error
        except UnexpectedResponse as error:
            if error.status_code < 500:
                raise ValueError(f"{store} refuses: {_line(error)}.") from error
            reason = error
        except RuntimeError as error:
            # Another process has the folder.
            raise StoreError(f"{store}: {_line(error)}.") from error
        if pause is not None:
            time.sleep(pause)
    raise StoreError(f"{store} does not answer, or cannot go on: {_line(reason)}. Repeat it to go on.") from reason


def _line(error):
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
