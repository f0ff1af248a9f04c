"""The rows of the studies on the emoji set are flags of training, and have the same budget."""

import pytest

from benchmarks import emoji_divide, emoji_ensembles, emoji_losses
from tfdml import flags, registry

STUDIES = {
    "losses": (emoji_losses.CHANGES, emoji_losses.SETTINGS),
    "divide": (emoji_divide.CHANGES, dict.fromkeys(emoji_divide.CHANGES, emoji_divide.SETTINGS)),
    "ensembles": (
        emoji_ensembles.CHANGES,
        {name: emoji_ensembles.settings_of(*method) for name, method in emoji_ensembles.METHODS.items()},
    ),
}


@pytest.mark.parametrize("study", STUDIES)
def test_rows_are_flags_of_training_and_parts_that_there_are(study, monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)
    changes, settings = STUDIES[study]
    assert changes.keys() == settings.keys() and len({len(each) for each in settings.values()}) == 1
    runs = set()
    for name, change in changes.items():
        for setting in settings[name]:
            resolved = flags.resolve(["--flagfile=configs/emoji.flags", *change, *setting])
            assert resolved["evaluate_on"] == "--evaluate_on=validation"
            runs.add(tuple(resolved.values()))
            spec = {name: flag.partition("=")[2] for name, flag in resolved.items()}
            registry.create("loss", spec["loss"], classes=10)
            for kind in ("sampler", "optimizer"):
                registry.create(kind, spec[kind])
            for kind in ("method", "backbone"):
                assert registry.parse(spec[kind])[0][0] in registry.names(kind)
    assert len(runs) == sum(map(len, settings.values()))
