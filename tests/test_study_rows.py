"""The rows of studies are flags of training, and those of a search have the same budget."""

import pytest

from benchmarks import (
    divide_and_conquer,
    edms_variants,
    emoji_divide,
    emoji_ensembles,
    emoji_losses,
    ensembles,
    lifted,
    ranked_list,
    ranked_list_losses,
    runs,
)
from tfdml import flags, registry

# Module to its rows, and to the settings that validation chooses among.
STUDIES = {
    divide_and_conquer: (divide_and_conquer.CHANGES, None),
    edms_variants: (edms_variants.CHANGES, edms_variants.SETTINGS),
    emoji_divide: (emoji_divide.CHANGES, dict.fromkeys(emoji_divide.CHANGES, emoji_divide.SETTINGS)),
    emoji_ensembles: (
        emoji_ensembles.CHANGES,
        {name: emoji_ensembles.settings_of(*method) for name, method in emoji_ensembles.METHODS.items()},
    ),
    emoji_losses: (emoji_losses.CHANGES, emoji_losses.SETTINGS),
    ensembles: ({name: [f"--method={method}"] for name, method in ensembles.METHODS.items()}, None),
    lifted: (lifted.CHANGES, None),
    ranked_list: (ranked_list.CHANGES, None),
    ranked_list_losses: (ranked_list_losses.CHANGES, ranked_list_losses.SETTINGS),
}
# As users give them behind a study's command.
MORE = ["--epochs=32", "--eval_every=4", "--schedule=step(at=(20,))", "--patience=5"]


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.__name__)
def test_rows_are_flags_of_training_and_parts_that_there_are(study, monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)
    changes, settings = STUDIES[study]
    searched = settings is not None
    settings = settings or {name: [[]] for name in changes}
    assert changes.keys() == settings.keys() and len({len(each) for each in settings.values()}) == 1
    resolved_runs, names = set(), set()
    for name, change in changes.items():
        for setting in settings[name]:
            given = [*change, *setting, *getattr(study, "SEARCHING", ())]
            resolved = flags.resolve([f"--flagfile={study.FLAGFILE}", *given])
            assert not searched or resolved["evaluate_on"] == "--evaluate_on=validation"
            resolved_runs.add(tuple(resolved.values()))
            spec = {name: flag.partition("=")[2] for name, flag in resolved.items()}
            registry.create("loss", spec["loss"], classes=10)
            for kind in ("sampler", "optimizer"):
                registry.create(kind, spec[kind])
            for kind in ("method", "backbone"):
                assert registry.parse(spec[kind])[0][0] in registry.names(kind)
            names.add(runs.run_name(study.FLAGFILE, [*given, *MORE]))
    assert len(names) == sum(map(len, settings.values())) and max(map(len, names)) <= runs.LONGEST_NAME
    # Two rows of EDMS differ in their number of members, which searches do not have.
    assert len(resolved_runs) == len(names) - (study is edms_variants) * 4


def test_long_names_of_runs_differ():
    long = [[f"--lr_multipliers={'embedding=10,' * 30}loss={number}"] for number in (1, 2)]
    first, second = (runs.run_name("configs/emoji.flags", flags) for flags in long)
    assert first != second and len(first) == len(second) == runs.LONGEST_NAME and first.startswith("emoji-lr_")
    assert runs.run_name("configs/emoji.flags", ["--steps=5"]) == "emoji-steps=5"


@pytest.mark.parametrize("gains", [divide_and_conquer.GAINS, emoji_divide.GAINS])
def test_differences_are_between_rows(gains):
    assert {name for pair in gains for name in pair} <= divide_and_conquer.CHANGES.keys() & emoji_divide.CHANGES.keys()


def test_all_losses_are_compared():
    tried = {
        registry.parse(setting[0].partition("=")[2])[0][0]
        for settings in emoji_losses.SETTINGS.values()
        for setting in settings
    }
    assert tried.isdisjoint(emoji_losses.LEFT_OUT)
    assert tried | set(emoji_losses.LEFT_OUT) == set(registry.names("loss"))
