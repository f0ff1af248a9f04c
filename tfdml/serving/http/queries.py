"""Reads the queries of requests and answers them in batches, from an index that may be replaced at any time."""

import base64
import dataclasses
import io
import json
import logging
import math
import queue
import re
import threading
import time
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
from fastapi import HTTPException
from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from pipelines.boxes import BoxError, checked_box
from pipelines.checks import wrong_header
from pipelines.images.decoding import why_costly
from tfdml.serving.http.server import MOST_NEIGHBORS
from tfdml.serving.index.stores.store import Neighbor
from tfdml.serving.index.threshold import Threshold

_END = object()


class Batcher:
    """Collects questions and answers them in batches, in its own threads.

    While one batch is answered, the next questions wait, so the batches grow with the load.

    `answer` is a function from a list of questions to a list of answers. If it raises an error, every question of the
    batch gets this error. `patience` is the number of seconds that the first question waits for others.
    """

    def __init__(self, answer, batch_size, patience=0.002, threads=1):
        self._answer, self._batch_size, self._patience = answer, batch_size, patience
        self._waiting = queue.SimpleQueue()
        # Start time of each thread's batch, or None while the thread waits for one.
        self._begun = [None] * threads
        # Daemon threads do not prevent the process from ending.
        self._threads = [threading.Thread(target=self._work, args=[number], daemon=True) for number in range(threads)]

    def start(self):
        for thread in self._threads:
            thread.start()

    def is_stuck(self, seconds):
        """Returns whether all threads have worked on their batches for longer than `seconds`."""
        now = time.monotonic()
        return all(begun is not None and now - begun > seconds for begun in list(self._begun))

    def submit(self, question):
        """Returns a `concurrent.futures.Future` of the answer."""
        future = Future()
        self._waiting.put((question, future))
        return future

    def close(self, seconds=None):
        """Answers the waiting questions and then ends the threads. No questions may follow.

        It waits at most `seconds` for that and leaves stuck threads behind. If `None`, it waits until all threads have
        ended.
        """
        self._waiting.put(_END)
        end = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if end is None else max(end - time.monotonic(), 0))

    def _work(self, number):
        while batch := self._next_batch():
            # Skip questions that nobody waits for anymore.
            batch = [(question, future) for question, future in batch if future.set_running_or_notify_cancel()]
            if batch:
                self._begun[number] = time.monotonic()
                self._answer_all(*zip(*batch, strict=True))
                self._begun[number] = None
        # Pass the end marker on to the other threads.
        self._waiting.put(_END)

    def _next_batch(self):
        """Returns the next questions with their futures, or an empty list at the end."""
        batch, first = [], self._waiting.get()
        end = time.monotonic() + self._patience
        while first is not _END:
            batch.append(first)
            if len(batch) == self._batch_size:
                return batch
            try:
                first = self._waiting.get(timeout=max(end - time.monotonic(), 0))
            except queue.Empty:
                return batch
        if batch:
            self._waiting.put(_END)
        return batch

    def _answer_all(self, questions, futures):
        try:
            for future, answer in zip(futures, self._answer(list(questions)), strict=True):
                future.set_result(answer)
        except Exception as error:
            for future in futures:
                if not future.done():
                    future.set_exception(error)


# Seconds between checks of the index files.
INTERVAL = 1.0
GONE = "The index cannot be reached; see the log for the reason. The service tries again every second."
UNUSABLE = "The index has changed and cannot be used; see the log for the reason. Answers come from the previous index."


class CurrentIndex:
    """Follows changes to a `Searcher`'s index on disk, and whether the vector database of an index answers.

    A changed index is read next to the old one. It replaces the old one if it is complete and has the same model, or
    was upgraded to another model. Until then, `searcher` stays the old one, and `problem` is the reason; otherwise
    `problem` is `None`. If a vector database does not answer, `is_gone` is True.
    """

    def __init__(self, searcher):
        self.searcher, self.problem = searcher, None
        self.is_gone = False
        self._state, self._logged = None, None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="index", daemon=True)

    def start(self):
        self._thread.start()

    def close(self):
        """Stops following changes."""
        self._stop.set()

    def check(self):
        """Reads the index again if it has changed since the last check."""
        try:
            state = self.searcher.state()
        except (OSError, ValueError) as error:
            # Rows in a vector database are out of reach with it, and answers from another model's rows would be wrong.
            self.is_gone, self._state = True, None
            self._report(GONE, error)
            return
        if self.is_gone:
            self.is_gone, self.problem, self._logged = False, None, None
        if state == self._state:
            return
        try:
            self.searcher, self.problem, self._logged = self.searcher.reopened(), None, None
        except Exception as error:
            # If the index was written to while it was read, read it again at the next check.
            if self._has_left(state):
                return
            self._report(UNUSABLE, error)
            if not isinstance(error, ValueError):
                # Other errors may be temporary, such as too many open files, so try again.
                return
        self._state = state

    def _has_left(self, state):
        """Returns whether the index has another state by now, or is gone, which the next check will report."""
        try:
            return self.searcher.state() != state
        except (OSError, ValueError):
            return True

    def _report(self, problem, error):
        self.problem, reason = problem, f"{str(error).rstrip('.')}."
        if reason != self._logged:
            logging.getLogger(__name__).warning("%s The service continues with the index that it has.", reason)
        self._logged = reason

    def _work(self):
        while not self._stop.wait(INTERVAL):
            self.check()


# The service never reveals paths, and filters on the path would reveal them letter by letter.
HIDDEN = ("path",)
# A threshold that accepts all neighbors.
ANY = Threshold()


@dataclasses.dataclass(frozen=True)
class Query:
    """A query image, as `Searcher.read` returned it or as a file, with the wanted number of neighbors and a filter.

    If `k` is 0, only the embedding is wanted. `reader` is the `Searcher` that has read the image, or `None` for a file.
    With a `text`, the query is the text alone or, next to an image, the sum of both embeddings, with the weights
    `text_weight` and `1 - text_weight`.
    """

    image: np.ndarray | bytes | None
    k: int = 0
    where: str | None = None
    reader: Any = None
    text: str | None = None
    text_weight: float = 0.5


@dataclasses.dataclass
class Answer:
    """The answer to a query.

    `matching` and `exact` are the values of `Found`, if there is a filter. `problem` describes what is wrong with the
    filter. `is_of_image` is whether the query is an image without a text.
    """

    embedding: np.ndarray
    neighbors: list[Neighbor] = dataclasses.field(default_factory=list)
    matching: int | None = None
    exact: bool | None = None
    problem: str | None = None
    threshold: Threshold = ANY
    metric: str = "cosine"
    is_of_image: bool = True


def answer_all(searcher, queries, threshold, text_threshold):
    """Returns the answers to queries, like `answer`. Images that another model has read are answered by its searcher.

    The functions `threshold` and `text_threshold` return the `Threshold` of a searcher for images and for texts.
    """
    places = {}
    for place, query in enumerate(queries):
        is_current = query.reader is None or query.reader is searcher or query.reader.model is searcher.model
        places.setdefault(searcher if is_current else query.reader, []).append(place)
    answers = [None] * len(queries)
    for reader, some in places.items():
        of_reader = answer(reader, [queries[place] for place in some], threshold(reader), text_threshold(reader))
        for place, one in zip(some, of_reader, strict=True):
            answers[place] = one
    return answers


def answer(searcher, queries, threshold=ANY, text_threshold=ANY):
    """Returns the `Answer` to each `Query`, or `None` if its image cannot be read.

    An image together with a text has no threshold, because their sum has yet another scale.
    """
    embeddings, valid = _embedded(searcher, queries)
    metric = searcher.manifest["metric"]
    answers = [
        Answer(
            embedding,
            threshold=threshold if query.text is None else text_threshold if query.image is None else ANY,
            metric=metric,
            is_of_image=query.text is None,
        )
        if readable
        else None
        for query, embedding, readable in zip(queries, embeddings, valid, strict=True)
    ]
    # Search separately for each k, because approximate searches find other images for another k, and answers must not
    # depend on other users' requests.
    for k, where in {(query.k, query.where) for query in queries if query.k}:
        places = [place for place in np.flatnonzero(valid) if (queries[place].k, queries[place].where) == (k, where)]
        if not places:
            continue
        try:
            found = searcher.search_vectors(embeddings[places], k, where, hidden=HIDDEN)
        except ValueError as error:
            if where is None:
                raise
            for place in places:
                answers[place].problem = str(error)
            continue
        filtered = {} if where is None else {"matching": found.matching, "exact": found.exact}
        for place, neighbors in zip(places, found, strict=True):
            answers[place] = dataclasses.replace(answers[place], neighbors=neighbors, **filtered)
    return answers


def _embedded(searcher, queries):
    """Returns the embeddings of queries, float32 `[N, D]`, and whether each image could be read, `[N]`."""
    pictured = [query.image for query in queries if query.image is not None]
    worded = [query.text for query in queries if query.text is not None]
    images = zip(*searcher.embed_read(pictured), strict=True) if pictured else None
    texts = iter(searcher.embed_texts(worded)) if worded else None
    found, valid = [], []
    for query in queries:
        vector, readable = (0.0, True) if query.image is None else next(images)
        if query.text is not None:
            weight = 1.0 if query.image is None else query.text_weight
            vector = (1 - weight) * vector + weight * next(texts)
        found.append(vector)
        valid.append(readable)
    return np.stack(found), np.array(valid)


# Largest image, in bytes, that is checked without a thread: starting one takes longer than reading the longest header
# of an image of this size.
AT_ONCE = 2**16
FORM, JSON = "multipart/form-data", "application/json"
# Maximum number of characters in a text.
LONGEST_TEXT = 1000


class Asked(NamedTuple):
    """What a request contains. Without an image, a box, a filter or a text, these are `None`."""

    content: bytes | None = None
    box: Any = None
    k: Any = None
    where: str | None = None
    text: str | None = None
    text_weight: Any = None


async def read_query(request, limits, names, default_k):
    """Returns the `Asked` of a request. A bad request is an HTTPException.

    The request contains a form with `image` and the fields `names`, or JSON with `b64` instead of `image`. Only a
    request that may contain a `text` may contain no image.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == FORM:
        asked = await _of_form(request, names)
    elif kind == JSON:
        asked = await run_in_threadpool(_of_json, await request.body(), names)
    else:
        raise HTTPException(415, f"The content type must be {FORM} or {JSON}. Received: {kind[:100] or 'none'}.")
    content, box, k, where, text, weight = asked
    # An HTML form sends an empty field as an empty string.
    box, where, text, weight = (None if each == "" else each for each in (box, where, text, weight))
    if content is not None and len(content) <= AT_ONCE:
        _check_image(content, limits)
    elif content is not None:
        await run_in_threadpool(_check_image, content, limits)
    if k is not None and (type(k) is not int or not 1 <= k <= MOST_NEIGHBORS):
        raise HTTPException(400, f"k must be an integer from 1 to {MOST_NEIGHBORS}. Received: {str(k)[:100]!r}.")
    if where is not None and not isinstance(where, str):
        raise HTTPException(400, "where must be a string, such as label == 'cup'.")
    if text is not None:
        _check_text(text)
    if content is None and text is None:
        raise HTTPException(400, "text is empty. Send a text, an image, or both.")
    if content is None and box is not None:
        raise HTTPException(400, "box needs an image.")
    if weight is not None and (content is None or text is None):
        raise HTTPException(400, "text_weight needs both an image and a text.")
    box = None if box is None else _box(box)
    return Asked(content, box, default_k if k is None else k, where, text, 0.5 if weight is None else _weight(weight))


def _check_text(text):
    if not isinstance(text, str) or len(text) > LONGEST_TEXT or not text.strip():
        raise HTTPException(400, f"text must be a string of 1 to {LONGEST_TEXT:,} characters, not only white space.")
    try:
        text.encode()
    except UnicodeEncodeError:
        # JSON can contain half of a surrogate pair.
        raise HTTPException(400, "text is not valid Unicode.") from None


def _weight(weight):
    """Returns a weight as a float. Raises an HTTPException unless it is a number from 0 to 1."""
    try:
        found = math.nan if isinstance(weight, bool) else float(weight)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not 0 <= found <= 1:
        raise HTTPException(400, f"text_weight must be a number from 0 to 1. Received: {str(weight)[:100]!r}.")
    return found


def _box(box):
    """Returns a box as four floats. Raises an HTTPException unless it can be a part of an image."""
    try:
        return checked_box(box.split(",") if isinstance(box, str) else box)
    except BoxError as error:
        raise HTTPException(400, str(error)) from None


async def _of_form(request, names):
    # Other charsets are rejected, because some of Python's decoders take minutes for one field and block all other
    # requests.
    charset = parse_options_header(request.headers["content-type"])[1].get(b"charset", b"utf-8")
    if charset.lower() not in (b"utf-8", b"utf8"):
        raise HTTPException(415, f"The charset must be utf-8. Received: {charset.decode('latin-1')[:100]}.")
    # The context closes the form's files, which otherwise stay open.
    async with request.form(max_files=1, max_fields=max(len(names), 1)) as form:
        _check_names(form.keys(), names, "image")
        upload, k = form.get("image"), form.get("k")
        if upload is not None and not isinstance(upload, UploadFile):
            raise HTTPException(400, "The field image contains text. Send a file.")
        if upload is not None and re.search(r"[/\\\0]", upload.filename or ""):
            raise HTTPException(400, "The file name contains a path. Send only the name of the file.")
        for name in ("k", "box", "text_weight"):
            if isinstance(form.get(name), UploadFile):
                raise HTTPException(400, f"The field {name} contains a file. Send numbers.")
        k = int(k) if k is not None and re.fullmatch("[0-9]{1,9}", k) else k
        others = [form.get(name) for name in ("where", "text", "text_weight")]
        return Asked(None if upload is None else await upload.read(), form.get("box"), k, *others)


def _of_json(body, names):
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "The body is not valid JSON.") from None
    if not isinstance(fields, dict):
        raise HTTPException(400, 'The body must be a JSON object such as {"b64": "..."}.')
    _check_names(fields, names, "b64")
    encoded = fields.pop("b64", None)
    if encoded is None and "text" in fields:
        return Asked(**fields)
    if not isinstance(encoded, str):
        raise HTTPException(400, "b64 must be a string. Send the content of the file in base64.")
    try:
        return Asked(base64.b64decode(encoded, validate=True), **fields)
    except ValueError:
        raise HTTPException(
            400, "b64 is not valid base64. Send the content of the file in base64, without line breaks."
        ) from None


def _check_names(names, others, needed):
    allowed = {needed, *others}
    unknown = sorted(set(names) - allowed)
    if unknown:
        raise HTTPException(400, f"Unknown field {unknown[0][:100]!r}. Expected {', '.join(sorted(allowed))}.")
    if needed not in names and "text" not in names:
        raise HTTPException(400, f"The field {needed} is missing.")


def _check_image(content, limits):
    """Checks what the file claims to be, without decoding it, to decide whether the model may decode it."""
    if not content:
        raise HTTPException(400, "The image is empty.")
    if len(content) > limits.image_bytes:
        raise HTTPException(413, f"The image has {len(content):,} bytes. At most {limits.image_bytes:,} are allowed.")
    wrong = wrong_header(io.BytesIO(content), limits.pixels) or why_costly(content)
    if wrong:
        raise HTTPException(400, f"The image {wrong}.")
