"""Imports Keras and its backend without TensorFlow's lines about the processor."""

import os
import sys
import tempfile

NOISE = ("absl::InitializeLog", "oneDNN custom operations", "cpu_feature_guard", "To enable the following instructions")


def import_keras_quietly():
    """Imports Keras; what its backend writes to standard error meanwhile is shown only if it is no noise.

    TensorFlow's log level does not reach these lines: they are written before its logging is set up.
    """
    if "keras" in sys.modules or "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    sys.stderr.flush()
    standard_error = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            import keras  # noqa: F401
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)
            written.seek(0)
            for line in written.read().decode(errors="replace").splitlines(keepends=True):
                if not any(noise in line for noise in NOISE):
                    sys.stderr.write(line)
