"""The study of EDMS on sets of real images: variants of its Table 2, and members."""

from benchmarks.studies.rows import edms_variants
from benchmarks.studies.rows.edms_variants import FULL, of_members, settings_of
from benchmarks.studies.rows.emoji_losses import RATES
from tfdml.run.study.study import Study
from tfdml.run.study.tables import correlation

WITHOUT, WALKS, IMAGES, INTRINSIC = "EDMS (w/o)", "EDMS (RW)", "EDMS (RW, P)", "EDMS (RW-int, P*)"
# As in the paper 50 meta-classes. How batches are drawn it leaves open: here from all images.
COMMON = ["--meta_classes=50", "--members=2"]
# Why members hardly learn: images of a meta-class in a batch are few, or its classes are many.
SAMPLED = f"{WITHOUT}, P×K batches"


def edms_of_images(flagfile, folder, few, intrinsic=False, batch=64, classes=0):
    """Returns a study of variants of EDMS, two members each, with four settings.

    Args:
        flagfile: path of the flagfile that every row changes.
        folder: folder of the run directories.
        few: number of meta-classes of the rows whose meta-classes have two classes each.
        intrinsic: whether a row has the intrinsic manifold similarity loss.
        batch: number of images of a batch.
        classes: number of classes that are trained on, for a row with as many meta-classes; 0: no such row.
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
    # The second minus the first: what walks, proxies, hard ones, and members win.
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
