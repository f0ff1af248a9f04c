"""The rows of `recent_losses` on emoji: `python -m benchmarks.study recent_losses_emoji --data_dir=data/emoji`."""

from benchmarks.studies.rows.recent_losses import study

STUDY = study("configs/emoji.flags", "runs/recent_losses_emoji", batch_size=64)
