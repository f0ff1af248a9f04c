"""Draws a batch: the name that `python -m tfdml.show` had before."""

import runpy
import warnings

if __name__ == "__main__":
    warnings.warn("python -m pipelines.show is now python -m tfdml.show.", DeprecationWarning, stacklevel=1)
    runpy.run_module("tfdml.show", run_name="__main__", alter_sys=True)
