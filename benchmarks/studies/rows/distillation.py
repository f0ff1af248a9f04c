"""A small network that learns from a large one: `python -m benchmarks.study distillation --seeds=1,2,3`.

Runs that docs/records/tasks/distillation.jsonl has are not trained again with these flags:

```
python -m benchmarks.study distillation --seeds=1,2,3 --initial_weights=mobilenet_v2_035_imagenet.weights.h5 \\
    --records=docs/records/tasks/distillation.jsonl
```

This file was committed before its runs, which nothing in it depends on. Rows train configs/emoji.flags,
configs/cars_half.flags and configs/omniglot.flags, MobileNetV2 of width 0.35. The teacher of each set is trained first,
from the start that was best there before, Inception v3 up to `mixed7`:

```
TEACHER="--backbone=keras_applications(name='InceptionV3', output='mixed7') --image_size=96 --loss=n_pair(scale=20.0)"
TEACHER="$TEACHER --initial_embedding=wccn --embedding_size=384 --initial_weights=inception_v3_mixed8.weights.h5"
python -m tfdml.train --flagfile=configs/emoji.flags $TEACHER --run_dir=runs/teachers/emoji
python -m tfdml.train --flagfile=configs/cars_half.flags $TEACHER --run_dir=runs/teachers/cars
python -m tfdml.train --flagfile=configs/omniglot.flags $TEACHER --run_dir=runs/teachers/omniglot
```

**Rows.** With labels: the student alone, and with a teacher in three forms: projected vectors, pairs, and vectors in
the teacher's space, for which the student has its 384 dimensions. Without labels: the student alone, which learns
from two views of each image, and with each form of the teacher. Batches without labels are drawn uniformly, so that
they do not depend on classes. Every row has the same number of images per step and of steps. Labels of validation
classes still choose the settings and the best step of all rows.

**Settings.** Validation chooses among four settings of each row, with seed 0, which is not reported: four learning
rates without a teacher, and with a teacher two learning rates times two weights of its loss. Without labels, there is
nothing to weight, so these rows have four learning rates.

**Main differences.** On each set, the teacher's vectors and its pairs minus the student alone, with labels and without:
twelve differences, corrected together by the method of Holm at 5%. Projections learn 10 times as fast as the network,
because they start from random weights. The column "kept" is Recall@1 as a share of the teacher's. A student keeps most
of the teacher's gain on a set if its difference is more than 90% of the difference between the teacher and the student
alone. All other differences are secondary.
"""

from tfdml.run.study.driver import seconds
from tfdml.run.study.study import Number, Study
from tfdml.run.study.tables import BEST_AND_LAST, MetricOf, spread_of, steps_to_best

SETS = {"emoji": ("emoji", 64), "cars": ("cars_half", 32), "Omniglot": ("omniglot", 64)}
RATES = ("0.0001", "0.0003", "0.001", "0.003")
# The learning rates and the weights of the teacher in a sum.
SUMS = [(rate, weight) for rate in ("0.0003", "0.001") for weight in (2, 10)]
N_PAIR = "n_pair(scale=20.0)"
FORMS = {"vectors": "teacher", "pairs": "teacher(form='pairs')", "shared space": "teacher(projection=False)"}
# A squared difference of cosines is much smaller than 1 minus a cosine.
TIMES = {"vectors": 1, "pairs": 10, "shared space": 1}
ALONE, WITHOUT = "alone", "no labels, alone"
# The projection is a new layer. Without it, embeddings have the teacher's dimensions.
MORE = {"vectors": ["--lr_multipliers=loss=10"], "shared space": ["--embedding_size=384"]}


def rate(value):
    return f"--optimizer=adam(learning_rate={value})"


def rows_of(of_set):
    """Returns a dictionary from the names of a set's rows to their flags and their four settings."""
    flagfile, images = SETS[of_set]
    begun = [f"--flagfile=configs/{flagfile}.flags", "--initial_embedding=wccn"]
    teacher = [*begun, f"--teacher=runs/teachers/{of_set.lower()}"]
    found = {
        ALONE: ([*begun, f"--loss={N_PAIR}"], [[rate(each)] for each in RATES]),
        WITHOUT: (
            [*begun[:1], "--loss=nt_xent(temperature=0.1)", f"--sampler=views(images={images // 2})"],
            [[rate(each)] for each in RATES],
        ),
    }
    for form, loss in FORMS.items():
        space = MORE.get(form, [])
        weighted = [[rate(each), f"--loss={N_PAIR} + {TIMES[form] * weight}*{loss}"] for each, weight in SUMS]
        found[form] = ([*teacher, *space], weighted)
        alone = [*teacher, *space, f"--loss={loss}", f"--sampler=uniform(batch_size={images})"]
        found[f"no labels, {form}"] = (alone, [[rate(each)] for each in RATES])
    return found


ROWS = {(of_set, name): row for of_set in SETS for name, row in rows_of(of_set).items()}


def kept(results, run_dirs):
    """Returns a column of Recall@1 as a share of the teacher's, which is empty without a teacher."""
    shares = [result["distillation"]["kept"] for result in results if "distillation" in result]
    return Number(sum(shares) / len(shares), ".0f", scale=100) if shares else ""


def in_teachers_gallery(results, run_dirs):
    """Returns a column of Recall@1 of the student's queries among the teacher's embeddings, if they share a space."""
    found = [
        each["distillation"]["student_in_teacher"]
        for each in results
        if "student_in_teacher" in each.get("distillation", {})
    ]
    return spread_of(found, "recall_at_1") if found else ""


STUDY = Study(
    flagfile="",
    rows={f"{of_set}: {name}": flags for (of_set, name), (flags, _) in ROWS.items()},
    columns={
        **BEST_AND_LAST,
        "teacher": lambda results, run_dirs: (
            spread_of([result["teacher"] for result in results], "recall_at_1") if "teacher" in results[0] else ""
        ),
        "kept": kept,
        "in the teacher's gallery": in_teachers_gallery,
        "features": MetricOf("features"),
        "steps to the best": steps_to_best,
        "seconds": seconds,
    },
    folder="runs/distillation",
    settings={f"{of_set}: {name}": settings for (of_set, name), (_, settings) in ROWS.items()},
    differences=[
        *(
            (f"{of_set}: {alone}", f"{of_set}: {prefix}{form}")
            for of_set in SETS
            for prefix, alone in (("", ALONE), ("no labels, ", WITHOUT))
            for form in FORMS
        ),
        *((f"{of_set}: {ALONE}", f"{of_set}: no labels, vectors") for of_set in SETS),
    ],
)
