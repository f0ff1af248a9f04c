"""`Metrics`: what has happened, for Prometheus."""

import collections
import threading

# Upper bounds of the seconds that a request took.
BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts requests, images and batches. Several threads may use it at once."""

    def __init__(self):
        # Requests with a body that has arrived; changed in the thread of the event loop only.
        self.waiting = 0
        self._lock = threading.Lock()
        self._requests, self._seconds = collections.Counter(), collections.Counter()
        self._total_seconds = 0.0
        self._batches = self._images = 0

    def count_request(self, path, status, seconds):
        with self._lock:
            self._requests[path, status] += 1
            self._seconds[next((bound for bound in BOUNDS if seconds <= bound), "+Inf")] += 1
            self._total_seconds += seconds

    def count_batch(self, images):
        with self._lock:
            self._batches += 1
            self._images += images

    def text(self):
        """Returns all in Prometheus' text format."""
        with self._lock:
            requests, seconds = sorted(self._requests.items()), dict(self._seconds)
            plain = [
                ("batches_total", "counter", "Batches that the model has embedded.", self._batches),
                ("images_total", "counter", "Images that the model has embedded.", self._images),
                ("waiting", "gauge", "Requests that have sent their body and wait for an answer.", self.waiting),
            ]
            total = self._total_seconds
        lines = [*_head("requests_total", "counter", "Requests by path and status.")]
        lines += [f'tfdml_requests_total{{path="{path}",status="{status}"}} {n}' for (path, status), n in requests]
        lines += _head("request_seconds", "histogram", "Seconds from a request to its answer.")
        count = 0
        for bound in (*BOUNDS, "+Inf"):
            count += seconds.get(bound, 0)
            lines.append(f'tfdml_request_seconds_bucket{{le="{bound}"}} {count}')
        lines += [f"tfdml_request_seconds_sum {total}", f"tfdml_request_seconds_count {count}"]
        for name, kind, about, value in plain:
            lines += [*_head(name, kind, about), f"tfdml_{name} {value}"]
        return "\n".join(lines) + "\n"


def _head(name, kind, about):
    return f"# HELP tfdml_{name} {about}", f"# TYPE tfdml_{name} {kind}"
