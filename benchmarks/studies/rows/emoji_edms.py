"""EDMS on the emoji set, the variants of its Table 2 and its members: `python -m benchmarks.study emoji_edms`.

Trains configs/emoji.flags with some variants of `edms_variants`, two members each, and one with batches of
P×K of 50 or 272 meta-classes, two or five members. Validation chooses among four settings of each row with a single
member, one seed and 400 steps: two learning rates, and a factor of all similarities or the α of random walks. Prints a
Markdown table of all settings, and another: mean ± standard deviation over seeds, in percent, of Recall@1 of the best
models of a member alone, which is the mean over the members, and of the first members together, and how members
correlate. Below the table are differences between rows. Runs are kept. docs/emoji.md is about
the images; --data_dir says where they are.
"""

from benchmarks.studies.rows import edms_variants
from benchmarks.studies.rows.edms_variants import of_members, settings_of
from benchmarks.studies.rows.emoji_losses import FLAGFILE, RATES
from tfdml.run.study.columns import correlation
from tfdml.run.study.declaration import Study

WITHOUT, WALKS, IMAGES, HARD = "EDMS (w/o)", "EDMS (RW)", "EDMS (RW, P)", "EDMS (RW, P*)"
LOSSES = {name: edms_variants.LOSSES[name] for name in (WITHOUT, WALKS, IMAGES, HARD)}
# As in the paper 50 meta-classes, here of 543 classes. How batches are drawn it leaves open: here from all images.
COMMON = ["--sampler=uniform(batch_size=64)", "--meta_classes=50"]
CHANGES = {name: [*COMMON, "--members=2"] for name in LOSSES}
# Why members hardly learn: images of a meta-class in a batch are few, or its eleven classes are many.
P_X_K = "--sampler=pxk(classes=16, per_class=4)"
SAMPLED, SMALL = f"{WITHOUT}, P×K batches", f"{WITHOUT}, P×K batches, 272 meta-classes"
MORE = f"{SMALL}, 5 members"
CHANGES[SAMPLED] = [P_X_K, "--meta_classes=50", "--members=2"]
CHANGES[SMALL] = [P_X_K, "--meta_classes=272", "--members=2"]
CHANGES[MORE] = [P_X_K, "--meta_classes=272", "--members=5"]
FOLLOW = {name: WITHOUT for name in (SAMPLED, SMALL, MORE)}
SETTINGS = {name: settings_of(losses, RATES) for name, losses in LOSSES.items()}
# The second minus the first: what walks, proxies, hard ones, and members win.
DIFFERENCES = [(WITHOUT, WALKS), (WALKS, IMAGES), (IMAGES, HARD), (WITHOUT, HARD)]
DIFFERENCES += [(WITHOUT, SAMPLED), (SAMPLED, SMALL), (SMALL, MORE)]
SEARCHING = ("--members=0", "--steps=400")
COLUMNS = {**of_members((2, 5)), "correlation": correlation}

STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns=COLUMNS,
    folder="runs/emoji_edms",
    settings=SETTINGS,
    searching=SEARCHING,
    follow=FOLLOW,
    learners=1,
    differences=DIFFERENCES,
)
