"""The former name of `pipelines.preprocessor`, until its last callers use the new one."""

from pipelines.preprocessor import Preprocessor

preparation = Preprocessor
