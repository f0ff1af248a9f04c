"""All kinds of files that the project reads, by name."""

from tests.fuzz import data_targets, run_targets, serving_targets

TARGETS = run_targets.TARGETS | data_targets.TARGETS | serving_targets.TARGETS
