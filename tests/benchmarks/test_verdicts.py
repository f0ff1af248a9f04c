"""Verdicts on claims: the rules on constructed cases, and the whole way from records of the study `decisive`."""

import itertools
import json

import numpy as np
import pytest

from benchmarks.pages import amounts, evidence_of_claims, recorded, reproduced, seed_variance, verdicts
from benchmarks.pages.claims import Difference
from benchmarks.pages.evidence_of_claims import DECISIVE, Evidence, best_of, decided_p_values, evidence_of, overall
from benchmarks.pages.links import link_of
from benchmarks.pages.papers import PAPERS, Decided, Deviation, Effect, Reported
from benchmarks.pages.verdicts import ABSENCE, AGREES, CANNOT_TELL, EITHER, EXCLUDED, NOT_FAIR, PRESENCE, WEAKER
from benchmarks.studies.rows import decisive
from tfdml.run.study.driver import trials_of
from tfdml.run.study.runs import resolved, runs_of

TRAINED = {"is_flat": True, "has_learned": True}


@pytest.mark.parametrize(
    ("found", "effect", "expected"),
    [
        ((4, 2, 6), 5, AGREES),
        ((4, 2, 6), 3, AGREES),
        ((4, 2, 6), 7, WEAKER),
        ((1, -1, 3), 4, EXCLUDED),
        ((-4, -6, -2), 1, EXCLUDED),
        # The upper end reaches the effect.
        ((1, -1, 3), 2.5, CANNOT_TELL),
        # The minimum detectable effect is 2.9 points. An interval below 0 needs no power.
        ((-0.5, -2.5, 1.5), 2.5, CANNOT_TELL),
        ((-2.5, -4.5, -0.5), 2.5, EXCLUDED),
    ],
)
def test_verdicts_follow_the_interval_and_the_effect_of_the_paper(found, effect, expected):
    assert verdicts.verdict(Difference(*found), effect, **TRAINED) == expected


def test_only_finished_rows_exclude_and_only_trained_rows_tell():
    excluded, agrees = Difference(1, -1, 3), Difference(4, 2, 6)
    assert verdicts.verdict(excluded, 4, is_flat=False, has_learned=True) == CANNOT_TELL
    assert verdicts.verdict(agrees, 4, is_flat=False, has_learned=True) == AGREES
    for found in (excluded, agrees, Difference(-4, -6, -2)):
        assert verdicts.verdict(found, 4, is_flat=True, has_learned=False) == CANNOT_TELL


def test_a_deviation_counts_where_it_explains_the_outcome():
    agrees, weaker, excluded, unknown = (Difference(*each) for each in ((4, 2, 6), (2, 1, 3), (1, -1, 3), (1, -3, 5)))
    found = {
        explains: [
            verdicts.verdict(each, 4, **TRAINED, explains=explains) for each in (agrees, weaker, excluded, unknown)
        ]
        for explains in ("", ABSENCE, PRESENCE, EITHER)
    }
    assert found == {
        "": [AGREES, WEAKER, EXCLUDED, CANNOT_TELL],
        ABSENCE: [AGREES, WEAKER, NOT_FAIR, NOT_FAIR],
        PRESENCE: [NOT_FAIR, NOT_FAIR, EXCLUDED, CANNOT_TELL],
        EITHER: [NOT_FAIR] * 4,
    }


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # The 90% intervals are the means ± 1.26 and ± 0.42 points.
        ((0.5, -1, 2), AGREES),
        ((1.5, 1, 2), AGREES),
        ((1, -0.5, 2.5), CANNOT_TELL),
        ((1.8, 1.3, 2.3), EXCLUDED),
        ((-3, -5, -1), EXCLUDED),
        ((0.5, -4, 5), CANNOT_TELL),
    ],
)
def test_equality_is_a_test_of_equivalence(found, expected):
    assert verdicts.verdict(Difference(*found), 2, **TRAINED, is_equality=True) == expected


@pytest.mark.parametrize(
    ("several", "expected"),
    [
        ([], CANNOT_TELL),
        ([AGREES, CANNOT_TELL, NOT_FAIR], AGREES),
        ([AGREES, WEAKER], WEAKER),
        ([AGREES, EXCLUDED], CANNOT_TELL),
        ([EXCLUDED, NOT_FAIR], EXCLUDED),
        ([NOT_FAIR, CANNOT_TELL], NOT_FAIR),
        ([CANNOT_TELL], CANNOT_TELL),
    ],
)
def test_verdicts_of_several_datasets(several, expected):
    assert verdicts.overall(several) == expected


def test_rows_are_equal_only_if_they_are_on_all_datasets():
    assert verdicts.overall([AGREES, AGREES], is_equality=True) == AGREES
    assert verdicts.overall([AGREES, CANNOT_TELL], is_equality=True) == CANNOT_TELL
    assert verdicts.overall([AGREES, EXCLUDED], is_equality=True) == EXCLUDED


PAGE = link_of("emoji_edms")


def evidence(verdict, is_confirmed, width=1.0, **more):
    found = Difference(3, 3 - width, 3 + width)
    source = ("emoji_edms", "A minus B")
    made = Evidence(found, None, 3, 100, (0.0, 0.5), (5.0, 5.0), 2.0, "reason", verdict, source, is_confirmed)
    return made._replace(**more)


def test_one_of_several_datasets_must_survive_the_correction():
    effect = Effect("claim", {}, Reported(3, "SOP"))
    found = {"emoji": evidence(AGREES, False), "cars": evidence(CANNOT_TELL, False, 2.0)}
    assert overall(effect, found) == CANNOT_TELL and best_of(effect, found) == "emoji"
    found["omniglot"] = evidence(AGREES, True, 3.0)
    assert overall(effect, found) == AGREES and best_of(effect, found) == "omniglot"
    # Rows whose rules were fixed before the runs count alone.
    found[DECISIVE] = evidence(EXCLUDED, False)
    assert overall(effect, found) == EXCLUDED and best_of(effect, found) == DECISIVE
    assert overall(effect, {}) == CANNOT_TELL and best_of(effect, {}) is None


def test_the_page_tells_what_a_verdict_depends_on():
    reported = Reported(3.8, "SOP, Table VI", images="660,000", note="A note.")
    effect = Effect("Many beat few", {}, reported, tells="five seeds (2 hours)", note="Another.")
    found = {
        "emoji": evidence(NOT_FAIR, False),
        "omniglot": evidence(NOT_FAIR, False, learned=(5.0, 1.0), gains=(None, None)),
        "cars": evidence(AGREES, True, last=-0.52),
    }
    text = reproduced.papers({"A paper": [(effect, found)]})
    assert (
        f"| Many beat few | +3.8, SOP, Table VI (own run) | [**+3.0 (2.0 to 4.0)**]({PAGE}), cars | **agrees** |"
        in text
    )
    assert "### Many beat few\n\nA note. Another.\n\n| Dataset |" in text
    assert f"| Emoji | [+3.0 (2.0 to 4.0)]({PAGE}) | 3 | 100 | +0.0 and +0.5 | 1.4 | not a fair test |" in text
    assert (
        f"| Omniglot | [+3.0 (2.0 to 4.0)]({PAGE}) | 3 | 100 | – and – | 1.4 | not a fair test, not trained |" in text
    )
    assert "- Images per learner in the paper: 660,000.\n- Not a fair test on emoji and Omniglot: reason.\n" in text
    assert "- The last models differ in the other direction on cars, by -0.5 points.\n" in text
    assert text.endswith("- What would decide it: five seeds (2 hours).")
    decided = effect._replace(decided=Decided("8", (decisive.NEIGHBORS,), (decisive.NEGATIVES,)))
    told = reproduced.papers({"A paper": [(decided, {})]})
    assert "| not measured | **cannot tell** |" in told and "Claim 8 of `benchmarks.study decisive`" in told


@pytest.mark.parametrize(
    ("found", "more", "reason"),
    [
        ((1, -1, 3), {"learned": (5.0, 1.0)}, "a variant has not learned"),
        ((1, -3, 5), {}, "the study could not have seen an effect of 3.8 points"),
        ((2, -0.5, 4.5), {}, "the interval contains both 0 and the effect of 3.8 points"),
        ((1, -1, 3), {"gains": (None, None)}, "the records do not show whether the variants still improve"),
        ((1, -1, 3), {"gains": (0.0, 2.0)}, "a variant still improves"),
    ],
)
def test_the_page_tells_why_nothing_can_be_told(found, more, reason):
    effect = Effect("Many beat few", {}, Reported(3.8, "SOP"))
    cars = evidence(CANNOT_TELL, False)._replace(difference=Difference(*found), **more)
    text = reproduced.papers({"A paper": [(effect, {"cars": cars})]})
    assert f"- Cannot tell on cars: {reason}." in text and "correction" not in text
    agrees = reproduced.papers({"A paper": [(effect, {"cars": cars, "emoji": evidence(AGREES, False)})]})
    assert "- Not significant after the correction for all differences: emoji." in agrees


@pytest.mark.parametrize(
    ("sampler", "images"),
    [
        ("pxk(classes=8, per_class=4)", 32),
        ("proportional_pxk(groups=8, per_class=4)", 32),
        ("uniform(batch_size=64)", 64),
        ("pairs(images=32)", 64),
        ("hard_neighbors(pairs=16, refresh_every=1000000)", 64),
        ("triplets(triplets=10)", 30),
        ("views(images=16)", 32),
    ],
)
def test_images_per_batch(sampler, images):
    assert amounts.images_per_batch(sampler) == images
    with pytest.raises(ValueError, match="Expected a sampler"):
        amounts.images_per_batch("given(count=32)")


def test_every_claim_has_a_test_that_would_tell():
    for effect in itertools.chain(*PAPERS.values()):
        assert effect.tells or all(name not in effect.deviations for name in effect.shown), effect.text
        assert effect.deviations.keys() <= effect.shown.keys(), effect.text
        rows = (*effect.decided.better, *effect.decided.control, *effect.decided.less) if effect.decided else ()
        assert set(rows) <= decisive.ROWS.keys(), effect.text
    main = [effect.decided for effect in itertools.chain(*PAPERS.values()) if effect.decided and effect.decided.is_main]
    assert sorted(each.claim for each in main) == sorted(decisive.CLAIMS)
    pairs = {(control, better) for each in main for control in each.control for better in each.better}
    assert pairs >= {pair for pair in decisive.MAIN if "800" not in pair[0]}


# What constructed records of the study have: Recall@1 of each row, before training, and the seeds.
CLASSES, QUERIES, BEFORE = 30, 40, 0.2


def recorded_runs(rows, seeds, chances, members=0):
    """Returns records of rows as the study would write them, with the middle rate as the best on validation classes.

    Args:
        rows: Names of rows.
        seeds: The reported seeds.
        chances: Dictionary from the name of a row to the Recall@1 of its classes.
        members: Number of members of an ensemble.
    """
    random, study = np.random.default_rng(0), decisive.STUDY
    flags = {name: [*study.flags(name), "--data_dir=data/cars"] for name in rows}
    found = []
    for name, setting, trial in trials_of(flags, study.settings, study.searching):
        rate = study.settings[name].index(setting)
        found.append(record(trial, 0, chances[name] - 0.1 * (rate != 1), random))
    for name, row in flags.items():
        for seed in seeds:
            found.append(record([*row, *study.settings[name][1]], seed, chances[name], random, members))
    return found


def record(flags, seed, chance, random, members=0):
    (run,) = runs_of(flags, [seed], "")
    right = random.binomial(QUERIES, chance, CLASSES)
    score = {"recall_at_1": float(right.sum() / (QUERIES * CLASSES))}
    points = [{"event": "evaluation", "step": step, "recall_at_1": chance} for step in (0, 1600, 3000, 3200)]
    result = {"metrics": score, "best": {**score, "step": 3200}, "step": 3200, "validation": {"best": score}}
    if members:
        result |= {"members": [{"curve": []}] * members, "learners": {"mean": {"recall_at_1": BEFORE + 0.01}}}
    else:
        result["untrained"] = {"recall_at_1": BEFORE}
    return {
        "run": run.path.name,
        "flags": list(resolved([*flags, f"--seed={seed}"]).values()),
        "result": result,
        "measured": {"model": "best", "queries": [QUERIES] * CLASSES, "right": right.tolist()},
        "curve": [] if members else points,
    }


@pytest.fixture
def write_records(tmp_path, monkeypatch):
    """Returns a function that writes records of the study, which are then the only ones."""
    folder = tmp_path / "records"
    folder.mkdir()
    monkeypatch.setattr(recorded, "RECORDS", folder)
    monkeypatch.setattr(evidence_of_claims, "RECORDS", folder)

    def write(records):
        (folder / "decisive.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
        seed_variance.read_once.cache_clear()
        recorded.seed_variances.cache_clear()

    yield write
    seed_variance.read_once.cache_clear()
    recorded.seed_variances.cache_clear()


def effect_of(text):
    return next(each for each in itertools.chain(*PAPERS.values()) if each.text == text)


def test_records_of_the_decisive_study_decide_a_claim(write_records, tmp_path):
    margin = effect_of("A margin between classes helps")._replace(shown={})
    assert not evidence_of(margin, None, tmp_path)
    rows, seeds = (decisive.RANKED, decisive.NO_MARGIN), (1, 2, 3, 4, 5)
    chances = {decisive.RANKED: 0.5, decisive.NO_MARGIN: 0.46, decisive.TUNED: 0.5}
    write_records(recorded_runs(rows, seeds[:4], chances))
    assert not evidence_of(margin, None, tmp_path), "the last seed is missing"
    write_records(recorded_runs(rows, seeds, chances))
    found = evidence_of(margin, None, tmp_path)
    assert overall(margin, found) == AGREES and found[DECISIVE].seeds == 5 and found[DECISIVE].images == 3200 * 32
    assert found[DECISIVE].difference.mean == pytest.approx(4, abs=1.5) and found[DECISIVE].gains == (0, 0)
    text = reproduced.papers({"Ranked List Loss": [(margin, found)]})
    assert "| Cars, decisive | +" in text and "What would decide it" not in text
    equal = effect_of("Ranked list loss equals tuned N-pair loss")._replace(shown={})
    write_records(recorded_runs((decisive.RANKED, decisive.TUNED), seeds, chances))
    found = evidence_of(equal, None, tmp_path)
    assert found[DECISIVE].verdict in (AGREES, CANNOT_TELL) and found[DECISIVE].difference.degrees > 4
    corrected = decided_p_values({"Ranked List Loss": [(equal, found)]})
    assert corrected == {equal.text: pytest.approx(min(1, 8 * found[DECISIVE].difference.p_value_within(2)))}
    assert "other direction" not in reproduced.papers({"Ranked List Loss": [(equal, found)]})


def test_validation_chooses_the_dose_and_members_that_do_not_learn_tell_nothing(write_records, tmp_path):
    hard = effect_of("Hard proxies help")._replace(shown={})
    doses = tuple(decisive.DOSES)
    chances = dict.fromkeys(doses, 0.3) | {decisive.IMAGES: 0.3, doses[2]: 0.45}
    write_records(recorded_runs((*doses, decisive.IMAGES), (1, 2, 3), chances, members=5))
    found = evidence_of(hard, None, tmp_path)[DECISIVE]
    assert found.difference.low > 10, "the third dose has the best validation score"
    assert not found.is_trained and found.verdict == CANNOT_TELL and found.gains == (None, None)


def test_a_difference_of_differences_is_that_of_four_rows(write_records, tmp_path):
    visits = effect_of("Proxies need more visits per class than pairs")
    rows = (*visits.decided.better, *visits.decided.control, *visits.decided.less)
    chances = dict(zip(rows, (0.6, 0.4, 0.3, 0.35), strict=True))
    write_records(recorded_runs(rows, (1, 2, 3, 4, 5), chances))
    found = evidence_of(visits, None, tmp_path)[DECISIVE]
    assert found.difference.mean == pytest.approx(100 * (0.6 - 0.4 - (0.3 - 0.35)), abs=3)
    assert found.verdict == AGREES and found.difference.low < found.difference.mean < found.difference.high


def test_deviations_have_their_numbers():
    facts = {
        name: "1" for name in ("images", "steps", "control_steps", "changed", "mask", "start", "rate", "control_rate")
    }
    facts["alone"] = "28%"
    deviations = [each for effect in itertools.chain(*PAPERS.values()) for each in effect.deviations.values()]
    assert deviations and all("{" not in each.text.format(**facts) for each in deviations)
    assert all(isinstance(each, Deviation) for each in deviations)
