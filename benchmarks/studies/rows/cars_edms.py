"""EDMS on half of Cars196, with the variants of its Table 2: `python -m benchmarks.study cars_edms`.

Trains configs/cars_half.flags in the same way as `emoji_edms` trains configs/emoji.flags, with 50 meta-classes, with 39
(half of the training classes), or with one per class. It prints the same tables. docs/datasets.md describes the images.
--data_dir is their folder.
"""

from benchmarks.studies.edms_of_images import edms_of_images

STUDY = edms_of_images("configs/cars_half.flags", "runs/cars_edms", few=39, intrinsic=True, batch=32, classes=78)
