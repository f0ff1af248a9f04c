"""EDMS on half of Cars196, the variants of its Table 2 and its members: `python -m benchmarks.study cars_edms`.

Trains configs/cars_half.flags as `emoji_edms` trains configs/emoji.flags, with 50 meta-classes, or 39, half of the
classes that are trained on, or as many as these. Prints the same tables. docs/cars.md is about the images; --data_dir
says where they are.
"""

from benchmarks.studies.edms_of_images import edms_of_images

STUDY = edms_of_images("configs/cars_half.flags", "runs/cars_edms", few=39, intrinsic=True, batch=32, classes=78)
