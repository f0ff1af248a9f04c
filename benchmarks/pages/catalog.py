"""The pages of docs/evidence, and the sources of their numbers."""

from dataclasses import dataclass

from benchmarks.studies.losses_and_methods import BEGUN_ROWS
from benchmarks.studies.rows import cars, decisive, kept_features, ranked_list_losses

ON_EMOJI = ("--data_dir=data/emoji",)
# The flags of studies on toy cars with longer runs.
LONGER = ("--epochs=32", "--eval_every=4", "--schedule=step(at=(20,))")
ON_SMALL_IMAGES = ("--image_size=32", "--epochs=32", "--eval_every=8", "--schedule=step(at=(20,))")


@dataclass(frozen=True)
class Source:
    """Rows of a study and their records. A page has numbers from one or several sources.

    Args:
        study: Name of the study, a module of `benchmarks.studies.rows`.
        records: Name of the file in docs/records.
        flags: Training flags of all rows.
        seeds: Seeds of every row.
        rows: Names of the rows. If empty, all rows of the study.
    """

    study: str
    records: str
    flags: tuple = ()
    seeds: tuple = (0, 1, 2)
    rows: tuple = ()


FIVE_SEEDS = (1, 2, 3, 4, 5)
GROUPED = (
    "one embedding",
    "K = 4",
    "K = 4, turns on all data",
    "K = 4, random clusters",
    "K = 4, clusters of classes",
    "K = 4, every slice on every batch",
)
# A template selects one with a paragraph `{study: NAME}`.
SOURCES = {
    "emoji_losses": Source("emoji_losses", "emoji", ON_EMOJI),
    "emoji_training": Source("emoji_training", "emoji", ON_EMOJI),
    "emoji_divide": Source("emoji_divide", "emoji", ON_EMOJI),
    "emoji_ensembles": Source("emoji_ensembles", "emoji", ON_EMOJI),
    "emoji_ranked_list": Source("emoji_ranked_list", "emoji", ON_EMOJI),
    "emoji_lifted": Source("emoji_lifted", "emoji", ON_EMOJI),
    "emoji_edms": Source("emoji_edms", "emoji", ON_EMOJI),
    "emoji_recipe": Source("emoji_recipe", "emoji", ON_EMOJI, rows=tuple(BEGUN_ROWS)),
    "omniglot": Source("omniglot", "omniglot", ("--data_dir=data/omniglot",)),
    "divide_and_conquer": Source("divide_and_conquer", "toycars_dnc"),
    "divide_and_conquer_tuned": Source("divide_and_conquer_tuned", "toycars_dnc"),
    "divide_and_conquer_searched": Source("divide_and_conquer_searched", "toycars_dnc"),
    "divide_and_conquer_grouped": Source(
        "divide_and_conquer", "toycars_grouped", ("--dataset=toycars(grouped=True)",), rows=GROUPED
    ),
    "ranked_list": Source("ranked_list", "ranked_list", LONGER, seeds=(1, 2)),
    "ranked_list_boundaries": Source("ranked_list_boundaries", "ranked_list_boundaries", ON_SMALL_IMAGES),
    "ranked_list_losses": Source(
        "ranked_list_losses", "ranked_list_losses", ON_SMALL_IMAGES, rows=ranked_list_losses.ROWS
    ),
    "toycars_recipe": Source("ranked_list_losses", "ranked_list_losses", ON_SMALL_IMAGES, rows=tuple(BEGUN_ROWS)),
    "lifted": Source("lifted", "lifted", LONGER, seeds=(1, 2)),
    "edms_variants": Source("edms_variants", "edms"),
    "cars_main": Source("cars", "cars", rows=cars.OF_MAIN),
    "cars_training": Source("cars_training", "cars", seeds=(0,)),
    "cars_losses": Source("cars", "cars", seeds=(0,), rows=cars.OF_LOSSES),
    "cars_ranked_list": Source("cars", "cars", seeds=(0,), rows=cars.OF_LEVELS),
    "cars_ensembles": Source("cars", "cars", seeds=(0,), rows=cars.OF_ENSEMBLES),
    "cars_learners": Source("cars", "cars", seeds=(0,), rows=cars.OF_NUMBERS),
    "cars_divide": Source("cars", "cars", seeds=(0,), rows=cars.OF_DIVIDED),
    "cars_lifted": Source("cars", "cars", seeds=(0,), rows=cars.OF_LIFTED),
    "cars_edms": Source("cars_edms", "cars", seeds=(0,)),
    # The rows with complete runs.
    "decisive": Source(
        "decisive",
        "decisive",
        seeds=FIVE_SEEDS,
        rows=(
            decisive.THREE,
            decisive.HEADS,
            decisive.FROZEN,
            decisive.FROZEN_LEVELS,
            decisive.TRAINED_LEVELS,
            decisive.RANKED,
            decisive.TUNED,
        ),
    ),
    "advice_on_emoji": Source("advice_on_emoji", "advice_on_emoji", ON_EMOJI, seeds=(1, 2, 3)),
    "validation_by_maker": Source("validation_by_maker", "validation_by_maker", ("--data_dir=data/cars",), seeds=(0,)),
    "fine_tuning": Source("fine_tuning", "fine_tuning", seeds=(0,)),
    # In a subfolder, because rows of networks must not get the small variance between seeds of heads.
    "heads_cars": Source("recent_losses_heads", "heads/cars", seeds=FIVE_SEEDS),
    "heads_emoji": Source("recent_losses_heads_emoji", "heads/emoji", seeds=FIVE_SEEDS),
}
# Rows of the study on kept features with complete runs.
KEPT = (
    kept_features.INITIAL,
    kept_features.EMBEDDING,
    kept_features.LORA,
    kept_features.ALL,
    kept_features.BLEND,
    kept_features.AT_RATE,
    kept_features.NEARER,
    kept_features.WEIGHTS,
)
# The table of each page in docs about a task.
TASKS = {
    "distillation": Source(
        "distillation",
        "tasks/distillation",
        ("--initial_weights=mobilenet_v2_035_imagenet.weights.h5",),
        seeds=(1, 2, 3),
        rows=("emoji: alone", "emoji: vectors", "Omniglot: alone", "Omniglot: vectors"),
    ),
    "pretrained_knowledge": Source(
        "kept_features",
        "tasks/kept_features",
        ("--initial_weights=mobilenet_v2_035_imagenet.weights.h5",),
        seeds=(1, 2, 3),
        rows=tuple(f"Omniglot: {row}" for row in KEPT),
    ),
}
# A page and its template have the same name.
PAGES = (
    "divide_and_conquer",
    "lifted_structure",
    "edms",
    "ranked_list",
    "attention_ensemble",
    "losses",
    "fine_tuning",
)
