"""The rows of studies are flags of training, and those of a search have the same budget."""

import functools
import json
import re

import pytest

from benchmarks import (
    divide_and_conquer,
    divide_and_conquer_tuned,
    edms_variants,
    emoji_divide,
    emoji_edms,
    emoji_ensembles,
    emoji_lifted,
    emoji_losses,
    emoji_ranked_list,
    emoji_training,
    ensembles,
    lifted,
    omniglot,
    ranked_list,
    ranked_list_boundaries,
    ranked_list_losses,
    runs,
)
from benchmarks.studies.measured import FILE
from tfdml import flags, registry
from tfdml.run.length import epochs_of, steps_per_epoch_of


def searched(study):
    """The rows of a study that have settings of their own."""
    return {name: change for name, change in study.CHANGES.items() if name not in study.FOLLOW}


# Module to its rows, and to the settings that validation chooses among.
STUDIES = {
    divide_and_conquer: (divide_and_conquer.CHANGES, None),
    divide_and_conquer_tuned: (
        searched(divide_and_conquer_tuned),
        {name: divide_and_conquer_tuned.SETTINGS for name in searched(divide_and_conquer_tuned)},
    ),
    edms_variants: (searched(edms_variants), edms_variants.SETTINGS),
    emoji_divide: (
        searched(emoji_divide),
        {name: emoji_divide.SETTINGS for name in searched(emoji_divide)},
    ),
    emoji_edms: (searched(emoji_edms), emoji_edms.SETTINGS),
    emoji_ensembles: (
        searched(emoji_ensembles),
        {name: emoji_ensembles.settings_of(*method) for name, method in emoji_ensembles.METHODS.items()},
    ),
    emoji_lifted: (emoji_lifted.CHANGES, emoji_lifted.SETTINGS),
    emoji_losses: (
        searched(emoji_losses),
        {name: emoji_losses.settings_of(name) for name in searched(emoji_losses)},
    ),
    emoji_ranked_list: (emoji_ranked_list.CHANGES, emoji_ranked_list.SETTINGS),
    emoji_training: (
        searched(emoji_training),
        {name: emoji_training.SETTINGS for name in searched(emoji_training)},
    ),
    ensembles: ({name: [f"--method={method}"] for name, method in ensembles.METHODS.items()}, None),
    lifted: (lifted.CHANGES, None),
    omniglot: (omniglot.CHANGES, omniglot.SETTINGS),
    ranked_list: (ranked_list.CHANGES, None),
    ranked_list_boundaries: (ranked_list_boundaries.CHANGES, None),
    ranked_list_losses: (ranked_list_losses.CHANGES, ranked_list_losses.SETTINGS),
}
FOLLOWED = [
    divide_and_conquer_tuned,
    edms_variants,
    emoji_divide,
    emoji_edms,
    emoji_ensembles,
    emoji_losses,
    emoji_training,
]
# Those whose rows have other names in the docs.
RENAMED = (edms_variants, emoji_edms)
# As users give them behind a study's command.
MORE = ["--epochs=32", "--eval_every=4", "--schedule=step(at=(20,))", "--patience=5"]


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.__name__)
def test_rows_are_flags_of_training_and_parts_that_there_are(study, monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)
    changes, settings = STUDIES[study]
    chosen = settings is not None
    settings = settings or {name: [[]] for name in changes}
    assert changes.keys() == settings.keys() and len({len(each) for each in settings.values()}) == 1
    resolved_runs, names = set(), set()
    for name, change in changes.items():
        for setting in settings[name]:
            given = [*change, *setting, *getattr(study, "SEARCHING", ())]
            resolved = flags.resolve([f"--flagfile={study.FLAGFILE}", *given])
            assert not chosen or resolved["evaluate_on"] == "--evaluate_on=validation"
            resolved_runs.add(tuple(resolved.values()))
            spec = {name: flag.partition("=")[2] for name, flag in resolved.items()}
            registry.create("loss", spec["loss"], classes=10)
            for kind in ("sampler", "optimizer", "protocol"):
                assert not spec[kind] or registry.create(kind, spec[kind])
            registry.create("schedule", spec["schedule"], learning_rate=0.1, steps_per_epoch=2, epochs=3)
            for kind in ("method", "backbone"):
                assert registry.parse(spec[kind])[0][0] in registry.names(kind)
            names.add(runs.run_name(study.FLAGFILE, [*given, *MORE]))
    # Two settings of ABE-4 have the weight of the row with the paper's.
    shared = (study is emoji_ensembles) * 2
    assert len(names) == sum(map(len, settings.values())) - shared and max(map(len, names)) <= runs.LONGEST_NAME
    # Two rows of EDMS differ in their number of members, which searches do not have.
    assert len(resolved_runs) == len(names) - (study is edms_variants) * 4


@pytest.mark.parametrize("study", FOLLOWED, ids=lambda study: study.__name__)
def test_rows_that_follow_others_have_rows_to_follow(study):
    assert set(study.FOLLOW) <= study.CHANGES.keys() and set(study.FOLLOW.values()) <= searched(study).keys()


@pytest.mark.parametrize("study", [emoji_divide, emoji_ensembles, emoji_losses], ids=lambda study: study.__name__)
def test_rows_with_four_times_the_steps_change_nothing_else(study):
    longer = {name: other for name, other in study.FOLLOW.items() if name.endswith(", four times the steps")}
    assert len(longer) >= 2
    for name, other in longer.items():
        once, longer_run = (
            flags.resolve([f"--flagfile={study.FLAGFILE}", *study.CHANGES[row]]) for row in (other, name)
        )
        assert once | {"steps": longer_run["steps"]} == longer_run
        assert [int(run["steps"].partition("=")[2]) for run in (once, longer_run)] == [800, 3200]


def test_the_authors_schedule_is_scaled_to_the_epochs_that_there_are():
    """With the 8,039 images of the set about 53 batches are in the training classes."""
    settings = flags.parse("\n".join(flags.resolve([f"--flagfile={emoji_divide.FLAGFILE}"]).values()))[0]
    epochs = epochs_of(settings, steps_per_epoch_of(settings, 53))
    arguments = registry.parse(f"x({emoji_divide.AUTHORS})")[0][1]
    assert (arguments["merge_loss_at"], arguments["merge_at"]) == (int(epochs * 80 / 200), int(epochs * 190 / 200))


@pytest.mark.slow
@pytest.mark.parametrize(
    "study", [edms_variants, emoji_divide, emoji_ensembles, emoji_ranked_list], ids=lambda study: study.__name__
)
def test_methods_fit_the_backbone(study, monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)
    changes, settings = STUDIES[study]
    make_backbone = functools.cache(lambda spec: registry.create("backbone", spec))
    specs = set()
    for name, change in changes.items():
        resolved = flags.resolve([f"--flagfile={study.FLAGFILE}", *change, *settings[name][0]])
        specs.add(tuple(resolved[flag].partition("=")[2] for flag in ("method", "backbone")))
    for method, backbone in specs:
        options = {"embedding_size": 128, "freeze_batch_norm": "none"}
        registry.create("method", method, backbone=make_backbone(backbone), **options)


def test_long_names_of_runs_differ():
    long = [[f"--lr_multipliers={'embedding=10,' * 30}loss={number}"] for number in (1, 2)]
    first, second = (runs.run_name("configs/emoji.flags", flags) for flags in long)
    assert first != second and len(first) == len(second) == runs.LONGEST_NAME and first.startswith("emoji-lr_")
    assert runs.run_name("configs/emoji.flags", ["--steps=5"]) == "emoji-steps=5"


@pytest.mark.parametrize(
    "study, differences",
    [
        (divide_and_conquer, divide_and_conquer.GAINS),
        (divide_and_conquer_tuned, divide_and_conquer_tuned.DIFFERENCES),
        (edms_variants, edms_variants.DIFFERENCES),
        (emoji_divide, emoji_divide.DIFFERENCES),
        (emoji_edms, emoji_edms.DIFFERENCES),
        (emoji_ensembles, emoji_ensembles.DIFFERENCES),
        (emoji_losses, emoji_losses.DIFFERENCES),
        (emoji_lifted, emoji_lifted.DIFFERENCES),
        (emoji_ranked_list, emoji_ranked_list.DIFFERENCES),
        (emoji_training, emoji_training.DIFFERENCES),
    ],
)
def test_differences_are_between_rows(study, differences):
    assert {name for pair in differences for name in pair} <= study.CHANGES.keys()


def test_tables_of_the_docs_compare_with_the_row_that_the_command_prints_first(request):
    page = (request.config.rootpath / "docs/methods.md").read_text(encoding="utf-8")
    # Of a command the first table with differences, and the name in its head or in its first row.
    table = (
        r"python -m benchmarks\.(\w+) (?:(?!\n##|python -m).)*?\| difference from ([^|]*) \|\n\|[-| ]*\n\| ([^|]*) \|"
    )
    found = {name: (head, first) for name, head, first in re.findall(table, page, re.DOTALL)}
    compared = {study.__name__.rpartition(".")[2]: study for study in STUDIES if study not in RENAMED}
    assert len(found.keys() & compared.keys()) >= 8
    for name in found.keys() & compared.keys():
        head, first = found[name]
        assert next(iter(compared[name].CHANGES)) == (first if head == "the first row" else head), name


@pytest.mark.parametrize("study", RENAMED, ids=lambda study: study.__name__)
def test_a_member_alone_is_the_mean_of_the_members(study, tmp_path):
    alone, together = ([{"recall_at_1": recall} for recall in recalls] for recalls in ((0.5, 0.3), (0.5, 0.6)))
    learners = {"alone": alone, "first": together, "correlation": 0.125}
    (tmp_path / FILE).write_text(json.dumps({"learners": learners}))
    results = [{"metrics": {"nmi": 0.7}}]
    cells = dict(zip(study.HEADS[1:], study.row(results, [tmp_path]), strict=True))
    assert cells["Recall@1 of a member"] == "40.0" and cells["of 2"] == "60.0" and cells["of 5"] == ""


@pytest.mark.slow
def test_levels_of_the_studies_are_finer_than_those_of_the_paper():
    """As the docs say: how many times smaller the sides of features are than those of the images."""

    def times_smaller(spec, side, names=None):
        backbone = registry.create("backbone", spec)
        levels = backbone.taps(names or backbone.method_default("levels"))
        return [side // shape[1] for shape in levels.compute_output_shape((1, side, side, 3))]

    emoji = emoji_ranked_list.levels("LMH")[0].partition("=")[2]
    assert times_smaller("bn_inception", 224) == [16, 32, 32]
    assert times_smaller(emoji, 64, emoji_ranked_list.LEVELS.values()) == [8, 16, 32]
    assert times_smaller("small(width=2)", 48, ranked_list.LEVELS.values()) == [2, 4, 8]


def test_all_losses_are_compared():
    tried = {
        registry.parse(setting[0].partition("=")[2])[0][0]
        for name in emoji_losses.LOSSES
        for setting in emoji_losses.settings_of(name)
    }
    assert tried.isdisjoint(emoji_losses.LEFT_OUT)
    assert tried | set(emoji_losses.LEFT_OUT) == set(registry.names("loss"))
