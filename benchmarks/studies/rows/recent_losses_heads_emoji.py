"""The rows of `recent_losses_heads` on emoji: `python -m benchmarks.study recent_losses_heads_emoji`."""

from benchmarks.studies.rows.recent_losses_heads import study

STUDY = study("features/emoji", "runs/recent_losses_heads_emoji")
