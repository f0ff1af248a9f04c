"""What requests ask, read and answered together, from an index that may be replaced."""

import base64
import dataclasses
import io
import json
import logging
import queue
import re
import threading
import time
from concurrent.futures import Future
from typing import Any

import numpy as np
from fastapi import HTTPException
from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from pipelines.checks import wrong_header
from pipelines.images.decoding import why_costly
from tfdml.serving.http.server import MOST_NEIGHBORS
from tfdml.serving.index.stores.store import Neighbor
from tfdml.serving.index.threshold import Threshold

_END = object()


class Batcher:
    """Collects questions and has threads of its own answer them in batches.

    While batches are answered, the next questions wait; so the batches grow with the load.

    `answer` is a function of a list of questions that returns a list of answers. If it raises an error, all of the
    batch get it. `patience` is the number of seconds that the first question waits for others.
    """

    def __init__(self, answer, batch_size, patience=0.002, threads=1):
        self._answer, self._batch_size, self._patience = answer, batch_size, patience
        self._waiting = queue.SimpleQueue()
        # When each thread has begun its batch; None while it waits for one.
        self._begun = [None] * threads
        # They do not keep a process that ends.
        self._threads = [threading.Thread(target=self._work, args=[number], daemon=True) for number in range(threads)]

    def start(self):
        for thread in self._threads:
            thread.start()

    def is_stuck(self, seconds):
        """Whether all threads have worked at their batches for longer than that."""
        now = time.monotonic()
        return all(begun is not None and now - begun > seconds for begun in list(self._begun))

    def submit(self, question):
        """Returns a `concurrent.futures.Future` of the answer."""
        future = Future()
        self._waiting.put((question, future))
        return future

    def close(self, seconds=None):
        """Answers what waits, then ends the threads; nothing may be asked any more.

        It waits so many seconds for that, and leaves threads that are stuck behind. If `None`, it waits until the end.
        """
        self._waiting.put(_END)
        end = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if end is None else max(end - time.monotonic(), 0))

    def _work(self, number):
        while batch := self._next_batch():
            # What nobody waits for any more is left out.
            batch = [(question, future) for question, future in batch if future.set_running_or_notify_cancel()]
            if batch:
                self._begun[number] = time.monotonic()
                self._answer_all(*zip(*batch, strict=True))
                self._begun[number] = None
        # For the other threads.
        self._waiting.put(_END)

    def _next_batch(self):
        """Returns the next questions with their futures; an empty list at the end."""
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


# Seconds between looks at the files of the index.
INTERVAL = 1.0
GONE = "The index is out of reach; the log says why. It is tried again every second."
UNUSABLE = "The index has changed and cannot be used; the log says why. Answers are from the one before."


class CurrentIndex:
    """Follows the changes of the index of a `Searcher` on the disk, and whether one in an engine answers.

    A changed index is read next to the old one and takes its place when it is whole, and of the same model or upgraded.
    Until then `searcher` is the old one, and `problem` says why; otherwise it is `None`. If an engine does not answer,
    `is_gone` is true.
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
        """Follows no further changes."""
        self._stop.set()

    def check(self):
        """Reads the index if it has changed since the last time."""
        try:
            state = self.searcher.state()
        except (OSError, ValueError) as error:
            # What lies in an engine is gone with it, and of another model it would be wrong to answer.
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
            # Written to while it was read, it is read again.
            if self._has_left(state):
                return
            self._report(UNUSABLE, error)
            if not isinstance(error, ValueError):
                # It may pass, as too many open files do, and is tried again.
                return
        self._state = state

    def _has_left(self, state):
        """Whether the index has another state by now, or is gone, which the next look tells."""
        try:
            return self.searcher.state() != state
        except (OSError, ValueError):
            return True

    def _report(self, problem, error):
        self.problem, reason = problem, f"{str(error).rstrip('.')}."
        if reason != self._logged:
            logging.getLogger(__name__).warning("%s The service goes on with the index that it has.", reason)
        self._logged = reason

    def _work(self):
        while not self._stop.wait(INTERVAL):
            self.check()


# The service tells nobody paths, and a filter would find them out letter by letter.
HIDDEN = ("path",)
# Accepts all neighbors.
ANY = Threshold()


@dataclasses.dataclass(frozen=True)
class Query:
    """An image that is asked about, as `Searcher.read` returned it, or its file, and the neighbors that are wanted.

    If `k` is 0, only the embedding is wanted. The `reader` is the `Searcher` that has read the image, or `None` for a
    file.
    """

    image: np.ndarray | bytes
    k: int = 0
    where: str | None = None
    reader: Any = None


@dataclasses.dataclass
class Answer:
    """The answer to a query: all that is known of its image.

    `matching` and `exact` are those of `Found`, if there is a filter, and `problem` says what is wrong with it.
    """

    embedding: np.ndarray
    neighbors: list[Neighbor] = dataclasses.field(default_factory=list)
    matching: int | None = None
    exact: bool | None = None
    problem: str | None = None
    threshold: Threshold = ANY
    metric: str = "cosine"


def answer_all(searcher, queries, threshold):
    """Returns what `answer` does. Images that a searcher with another model has read are answered by that one.

    The function `threshold` returns the `Threshold` of a searcher.
    """
    places = {}
    for place, query in enumerate(queries):
        is_current = query.reader is None or query.reader is searcher or query.reader.model is searcher.model
        places.setdefault(searcher if is_current else query.reader, []).append(place)
    answers = [None] * len(queries)
    for reader, some in places.items():
        of_reader = answer(reader, [queries[place] for place in some], threshold(reader))
        for place, one in zip(some, of_reader, strict=True):
            answers[place] = one
    return answers


def answer(searcher, queries, threshold=ANY):
    """Returns the `Answer` to each `Query`; `None` if its image cannot be read."""
    embeddings, valid = searcher.embed_read([query.image for query in queries])
    metric = searcher.manifest["metric"]
    answers = [
        Answer(embedding, threshold=threshold, metric=metric) if readable else None
        for embedding, readable in zip(embeddings, valid, strict=True)
    ]
    # Approximate searches find other images for another k: nobody's answer may depend on who else asks.
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


# Bytes of an image whose header is read without a thread, which would take longer than the longest header of so many.
AT_ONCE = 2**16
FORM, JSON = "multipart/form-data", "application/json"


async def read_query(request, limits, default_k):
    """Returns image, number of neighbors and filter of a request; an HTTPException says what is wrong with it.

    The request has a form, `image`, `k` and `where`, or JSON, `b64`, `k` and `where`. If `default_k` is 0, it must name
    neither a number of neighbors nor a filter.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    names = {"k", "where"} if default_k else set()
    if kind == FORM:
        content, k, where = await _of_form(request, names)
    elif kind == JSON:
        content, k, where = await run_in_threadpool(_of_json, await request.body(), names)
    else:
        raise HTTPException(415, f"Expected the content type {FORM} or {JSON}, received {kind[:100] or 'none'}.")
    if len(content) <= AT_ONCE:
        _check_image(content, limits)
    else:
        await run_in_threadpool(_check_image, content, limits)
    if k is not None and (type(k) is not int or not 1 <= k <= MOST_NEIGHBORS):
        raise HTTPException(400, f"k: expected a whole number from 1 to {MOST_NEIGHBORS}, received {str(k)[:100]!r}.")
    if where is not None and not isinstance(where, str):
        raise HTTPException(400, "where: expected a text, such as label == 'cup'.")
    # A page's form sends an empty field as an empty text.
    return content, default_k if k is None else k, where or None


async def _of_form(request, names):
    # Of others Python may have a decoder that takes minutes for a field, in which nobody is answered.
    charset = parse_options_header(request.headers["content-type"])[1].get(b"charset", b"utf-8")
    if charset.lower() not in (b"utf-8", b"utf8"):
        raise HTTPException(415, f"Expected the charset utf-8, received {charset.decode('latin-1')[:100]}.")
    # Files that are not closed stay open; the context closes them.
    async with request.form(max_files=1, max_fields=max(len(names), 1)) as form:
        _check_names(form.keys(), {"image", *names}, "image")
        upload, k, where = form["image"], form.get("k"), form.get("where")
        if not isinstance(upload, UploadFile):
            raise HTTPException(400, "The field image is text; send a file.")
        if re.search(r"[/\\\0]", upload.filename or ""):
            raise HTTPException(400, "The file's name has a path in it; send the name alone.")
        if isinstance(k, UploadFile):
            raise HTTPException(400, "The field k is a file; send a number.")
        return await upload.read(), int(k) if k is not None and re.fullmatch("[0-9]{1,9}", k) else k, where


def _of_json(body, names):
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "The body is no JSON.") from None
    if not isinstance(fields, dict):
        raise HTTPException(400, 'Expected a JSON object such as {"b64": "..."}.')
    _check_names(fields, {"b64", *names}, "b64")
    if not isinstance(fields["b64"], str):
        raise HTTPException(400, "b64 is no text; send the file's content in base64.")
    try:
        return base64.b64decode(fields["b64"], validate=True), fields.get("k"), fields.get("where")
    except ValueError:
        raise HTTPException(400, "b64 is no base64; send the file's content in base64, without line breaks.") from None


def _check_names(names, allowed, needed):
    unknown = sorted(set(names) - allowed)
    if unknown:
        raise HTTPException(400, f"Unknown field {unknown[0][:100]!r}; expected {', '.join(sorted(allowed))}.")
    if needed not in names:
        raise HTTPException(400, f"The field {needed} is missing.")


def _check_image(content, limits):
    """Decodes nothing: what the file claims decides whether the model may decode it."""
    if not content:
        raise HTTPException(400, "The image is empty.")
    if len(content) > limits.image_bytes:
        raise HTTPException(413, f"The image has {len(content):,} bytes, more than {limits.image_bytes:,}.")
    wrong = wrong_header(io.BytesIO(content), limits.pixels) or why_costly(content)
    if wrong:
        raise HTTPException(400, f"The image {wrong}.")
