"""The study of EDMS on datasets of real images: variants of its Table 2, and numbers of members."""

from benchmarks.studies.rows import edms_variants
from benchmarks.studies.rows.edms_variants import FULL, of_members, settings_of
from benchmarks.studies.rows.emoji_losses import RATES
from tfdml.run.study.study import Study
from tfdml.run.study.tables import correlation

WITHOUT, WALKS, IMAGES, INTRINSIC = "EDMS (w/o)", "EDMS (RW)", "EDMS (RW, P)", "EDMS (RW-int, P*)"
# 50 meta-classes, as in the paper. The paper leaves open how batches are drawn; these rows draw from all images.
COMMON = ["--meta_classes=50", "--members=2"]
# Two reasons why members may learn little: few images per meta-class in a batch, or many classes per meta-class.
SAMPLED = f"{WITHOUT}, P×K batches"


def edms_of_images(flagfile, folder, few, intrinsic=False, batch=64, classes=0):
    """Returns a study of EDMS variants with two members and four settings each.

    Args:
        flagfile: Path of the flagfile that every row changes.
        folder: Folder of the run directories.
        few: Number of meta-classes in rows with two classes per meta-class.
        intrinsic: Whether a row uses the intrinsic manifold similarity loss.
        batch: Number of images per batch.
        classes: Number of training classes, for a row with one meta-class per class. If 0, there is no such row.
    """
    uniform, p_x_k = f"--sampler=uniform(batch_size={batch})", f"--sampler=pxk(classes={batch // 4}, per_class=4)"
    variants = [WITHOUT, WALKS, IMAGES, *[INTRINSIC] * intrinsic, FULL]
    small = f"{SAMPLED}, {few} meta-classes"
    more, every = f"{small}, 5 members", f"{SAMPLED}, {classes} meta-classes"
    rows = {name: [uniform, *COMMON] for name in variants}
    rows[SAMPLED] = [p_x_k, *COMMON]
    rows[small] = [p_x_k, f"--meta_classes={few}", "--members=2"]
    rows[more] = [p_x_k, f"--meta_classes={few}", "--members=5"]
    if classes:
        rows[every] = [p_x_k, f"--meta_classes={classes}", "--members=2"]
    # The second row minus the first: the effects of walks, proxies, hard proxies and members.
    differences = [(WITHOUT, WALKS), (WALKS, IMAGES), (IMAGES, FULL), (WITHOUT, FULL)]
    differences += [(WITHOUT, SAMPLED), (SAMPLED, small), (small, more), *[(INTRINSIC, FULL)] * intrinsic]
    differences += [(SAMPLED, every), (small, every)] if classes else []
    return Study(
        flagfile=flagfile,
        rows=rows,
        columns={**of_members((2, 5)), "correlation": correlation},
        folder=folder,
        settings={name: settings_of(edms_variants.LOSSES[name], RATES) for name in variants},
        searching=("--members=0", "--steps=400"),
        follow={name: WITHOUT for name in (SAMPLED, small, more, every) if name in rows},
        learners=1,
        differences=differences,
    )
