"""Where the curves of a run go beside its `metrics.jsonl`: a logger a file."""
