"""The rows of studies are flags of training, and those of a search have the same budget."""

import functools
import importlib
import json
import pkgutil

import numpy as np
import pytest

from benchmarks.studies import rows
from benchmarks.studies.rows import decisive, emoji_divide, emoji_ranked_list, ranked_list
from tfdml import registry
from tfdml.console import flags
from tfdml.run.experiment.length import Length
from tfdml.run.study import runs
from tfdml.run.study.records import FILE
from tfdml.run.study.study import text_of

STUDIES = {
    module.name: importlib.import_module(f"{rows.__name__}.{module.name}").STUDY
    for module in pkgutil.iter_modules(rows.__path__)
}
of_each_study = pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)


def searched(study):
    """The rows of a study that do not have the settings of others."""
    return [name for name in study.rows if name not in study.follow]


def settings_of(study, name):
    return study.settings[name] if study.settings else [[]]


OF_MEMBERS = ("edms_variants", "emoji_edms", "cars_edms")
# As users give them behind a study's command.
MORE = ["--epochs=32", "--eval_every=4", "--schedule=step(at=(20,))", "--patience=5"]


def test_every_file_is_a_study():
    assert len(STUDIES) >= 16 and all(study.rows and study.columns for study in STUDIES.values())


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.few_by_day(6)
def test_rows_are_flags_of_training_and_parts_that_there_are(name, monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)
    study = STUDIES[name]
    settings = {row: settings_of(study, row) for row in searched(study)}
    assert study.settings.keys() <= settings.keys() and len({len(each) for each in settings.values()}) == 1
    resolved_runs, names = set(), set()
    for row, tried in settings.items():
        for setting in tried:
            given = [*study.flags(row), *setting, *study.searching]
            resolved = flags.resolve(given)
            assert not study.settings or resolved["evaluate_on"] == "--evaluate_on=validation"
            resolved_runs.add(tuple(resolved.values()))
            spec = {name: flag.partition("=")[2] for name, flag in resolved.items()}
            registry.create("loss", spec["loss"], classes=10, teacher_dims=4)
            for kind in ("sampler", "optimizer", "protocol"):
                assert not spec[kind] or registry.create(kind, spec[kind])
            registry.create("schedule", spec["schedule"], learning_rate=0.1, steps_per_epoch=2, epochs=3)
            for kind in ("method", "backbone"):
                assert registry.parse(spec[kind])[0][0] in registry.names(kind)
            names.add(runs.run_name([*given, *MORE]))
    # Two settings of ABE-4 have the weight of the row with the paper's. On cars two of triplets are those of one
    # embedding, and two of multi-similarity have the base of the row with the authors'.
    shared = {"emoji_ensembles": 2, "cars": 4}.get(name, 0)
    assert len(names) == sum(map(len, settings.values())) - shared and max(map(len, names)) <= runs.LONGEST_NAME
    # Two rows of EDMS differ in their number of members, which searches do not have.
    assert len(resolved_runs) == len(names) - (name == "edms_variants") * 4


@of_each_study
def test_rows_that_follow_others_have_rows_to_follow(study):
    assert set(study.follow) <= study.rows.keys() and set(study.follow.values()) <= set(searched(study))


@pytest.mark.parametrize("name", ["emoji_divide", "emoji_ensembles", "emoji_losses"])
def test_rows_with_four_times_the_steps_change_nothing_else(name):
    study = STUDIES[name]
    longer = {row: other for row, other in study.follow.items() if row.endswith(", four times the steps")}
    assert len(longer) >= 2
    for row, other in longer.items():
        once, longer_run = (flags.resolve(study.flags(each)) for each in (other, row))
        assert once | {"steps": longer_run["steps"]} == longer_run
        assert [int(run["steps"].partition("=")[2]) for run in (once, longer_run)] == [800, 3200]


def test_the_authors_schedule_is_scaled_to_the_epochs_that_there_are():
    """With the 8,039 images of the set about 53 batches are in the training classes."""
    settings = flags.parse("\n".join(flags.resolve([f"--flagfile={emoji_divide.FLAGFILE}"]).values()))[0]
    epochs = Length.of(settings.length, settings.evaluation, 53).epochs
    arguments = registry.parse(f"x({emoji_divide.AUTHORS})")[0][1]
    assert (arguments["merge_loss_at"], arguments["merge_at"]) == (int(epochs * 80 / 200), int(epochs * 190 / 200))


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["edms_variants", "emoji_divide", "emoji_ensembles", "emoji_ranked_list"])
def test_methods_fit_the_backbone(name, monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)
    study = STUDIES[name]
    make_backbone = functools.cache(lambda spec: registry.create("backbone", spec))
    specs = set()
    for row in searched(study):
        resolved = flags.resolve([*study.flags(row), *settings_of(study, row)[0]])
        specs.add(tuple(resolved[flag].partition("=")[2] for flag in ("method", "backbone")))
    for method, backbone in specs:
        options = {"embedding_size": 128, "freeze_batch_norm": "none"}
        registry.create("method", method, backbone=make_backbone(backbone), **options)


@pytest.mark.nightly
def test_decisive_heads_have_as_many_parameters_as_the_levels(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)
    counts = {}
    for name in decisive.OF_LEVELS:
        spec = {flag: text.partition("=")[2] for flag, text in flags.resolve(decisive.STUDY.flags(name)).items()}
        backbone = registry.create("backbone", spec["backbone"])
        options = {"embedding_size": int(spec["embedding_size"]), "freeze_batch_norm": spec["freeze_batch_norm"]}
        method = registry.create("method", spec["method"], backbone=backbone, **options)
        method(np.zeros((1, 96, 96, 3), "float32"))
        counts[name] = sum(int(np.prod(variable.shape)) for variable in method.learning_variables())
    assert counts[decisive.HEADS] == pytest.approx(counts[decisive.THREE], rel=0.001)
    assert counts[decisive.LINEAR_LEVELS] < counts[decisive.LINEAR_HEADS] == counts[decisive.ONE]
    for count in counts.values():
        assert f"{count:,}" in decisive.__doc__


def test_decisive_rows_have_three_settings_and_the_steps_of_their_controls():
    study = decisive.STUDY
    assert {len(tried) for tried in study.settings.values()} == {3} and study.searching == ("--members=0",)
    lengths = {
        name: {flag for flag in row if flag.startswith(("--steps=", "--epochs="))} for name, row in study.rows.items()
    }
    # Those about length itself, or about frozen features, which are not trained.
    apart = (decisive.UNSPLIT_SHORT, decisive.FROZEN, decisive.FROZEN_LEVELS)
    for first, second in study.differences:
        assert first in apart or lengths[first] == lengths[second], (first, second)


@pytest.mark.parametrize("name", ["recent_losses", "recent_losses_emoji"])
def test_recent_losses_are_compared_at_the_same_cost(name):
    study = STUDIES[name]
    cost = ("sampler", "pieces", "steps", "eval_every", "image_size", "embedding_size")
    for first, second in study.differences:
        if (first, second) == ("Recall@k", "Recall@k, large batches"):
            continue
        one, other = (flags.resolve(study.flags(each)) for each in (first, second))
        assert [one.get(each) for each in cost] == [other.get(each) for each in cost], (first, second)
    assert {len(tried) for tried in study.settings.values()} == {3} and not study.searching


def test_long_names_of_runs_differ():
    long = [[f"--lr_multipliers={'embedding=10,' * 30}loss={number}"] for number in (1, 2)]
    first, second = (runs.run_name(["--flagfile=configs/emoji.flags", *each]) for each in long)
    assert first != second and len(first) == len(second) == runs.LONGEST_NAME and first.startswith("emoji-lr_")
    assert runs.run_name(["--flagfile=configs/emoji.flags", "--steps=5"]) == "emoji-steps=5"


@of_each_study
def test_differences_are_between_rows(study):
    assert {name for pair in study.differences for name in pair} <= study.rows.keys()


@pytest.mark.parametrize("name", OF_MEMBERS)
def test_a_member_alone_is_the_mean_of_the_members(name, tmp_path):
    alone, together = ([{"recall_at_1": recall} for recall in recalls] for recalls in ((0.5, 0.3), (0.5, 0.6)))
    learners = {"alone": alone, "first": together, "correlation": 0.125}
    (tmp_path / FILE).write_text(json.dumps({"learners": learners}))
    results = [{"metrics": {"nmi": 0.7}}]
    cells = {head: text_of(column(results, [tmp_path])) for head, column in STUDIES[name].columns.items()}
    assert cells["Recall@1 of a member"] == "40.0" and cells["of 2"] == "60.0" and cells["of 5"] == ""


@pytest.mark.nightly
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
