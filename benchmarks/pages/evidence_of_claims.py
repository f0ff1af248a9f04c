"""Evidence on the claims of papers: differences from the records, with all that a verdict depends on."""

from typing import NamedTuple

from benchmarks.pages import amounts, verdicts
from benchmarks.pages.catalog import SOURCES, Source
from benchmarks.pages.claims import EQUIVALENT, Difference, difference_of
from benchmarks.pages.contrasts import Contrast, contrast, corrected, holm
from benchmarks.pages.papers import PAPERS, SETS
from benchmarks.pages.recorded import RECORDS, MissingRun, Recorded
from benchmarks.pages.seed_variance import is_closed_form
from benchmarks.studies.rows import decisive

# Name of the study with rows and rules that were fixed before its runs. It trains on the images of cars.
DECISIVE = "decisive"
NAMES = {**SETS, DECISIVE: "Cars, decisive"}
MAIN_CLAIMS = len(decisive.CLAIMS)
# Of two rows, or of two differences.
WEIGHTS = (1, -1, -1, 1)


class Evidence(NamedTuple):
    """What one dataset shows about a claim.

    Args:
        difference: The `Difference`.
        contrast: The same as a `Contrast`, for corrections.
        seeds: Number of seeds of each row.
        images: Images per learner of the first row.
        gains: Gains of both rows in the last quarter, in percentage points. A gain is None without a curve.
        learned: Recall@1 of both rows minus Recall@1 of their initial weights, in percentage points.
        last: The difference between the last models, in percentage points, without an interval.
        reason: What differs from the paper, or empty.
        verdict: One of `verdicts.VERDICTS`.
        source: Source of the rows and text `A minus B`, or None.
        is_confirmed: Whether the difference is significant after a correction for all printed differences (max-t).
    """

    difference: Difference
    contrast: Contrast
    seeds: int
    images: int
    gains: tuple
    learned: tuple
    last: float
    reason: str
    verdict: str
    source: tuple | None
    is_confirmed: bool = False

    @property
    def is_trained(self):
        """Whether both rows are above their initial weights."""
        return min(self.learned) >= amounts.LEARNED


def evidence_by_claim(recorded_of, folder):
    """Returns a dictionary from each paper to pairs of an `Effect` and its `Evidence` by dataset.

    Args:
        recorded_of: Function from the name of a source to its `Recorded` study.
        folder: Folder for `Recorded`.
    """
    by_claim = {
        paper: [(effect, evidence_of(effect, recorded_of, folder)) for effect in effects]
        for paper, effects in PAPERS.items()
    }
    every = [each for claims in by_claim.values() for _, found in claims for each in found.values()]
    p_values = iter(corrected([each.contrast for each in every]))
    return {
        paper: [
            (effect, {name: each._replace(is_confirmed=next(p_values) < 0.05) for name, each in found.items()})
            for effect, found in claims
        ]
        for paper, claims in by_claim.items()
    }


def evidence_of(effect, recorded_of, folder):
    """Returns a dictionary from each dataset, and `DECISIVE` if its rows are recorded, to the `Evidence`."""
    found = {name: _shown(effect, name, recorded_of(source), pair) for name, (source, pair) in effect.shown.items()}
    if effect.decided is not None:
        decided = _decided(effect, folder)
        found |= {DECISIVE: decided} if decided else {}
    return found


def effect_of_interest(effect):
    """Returns the effect of the paper, or the smallest one that matters, in percentage points."""
    return effect.reported.points if effect.reported else EQUIVALENT


def overall(effect, found):
    """Returns the verdict on a claim.

    Rows with rules that were fixed before the runs count alone. Otherwise, several datasets were looked at, so an
    effect only counts if it is significant after the correction for all differences.

    Args:
        effect: The `Effect`.
        found: Dictionary from a dataset to its `Evidence`.
    """
    if DECISIVE in found:
        return found[DECISIVE].verdict
    return verdicts.overall([_counted(effect, each) for each in found.values()], effect.is_equality)


def best_of(effect, found):
    """Returns the dataset with the most precise of the differences that have the verdict on the claim, or None."""
    if DECISIVE in found:
        return DECISIVE
    verdict = overall(effect, found)
    names = [name for name, each in found.items() if _counted(effect, each) == verdict] or list(found)
    return min(names, key=lambda name: found[name].difference.detectable, default=None)


def _counted(effect, each):
    is_seen = each.verdict in (verdicts.AGREES, verdicts.WEAKER) and not effect.is_equality
    return verdicts.CANNOT_TELL if is_seen and not each.is_confirmed else each.verdict


def decided_p_values(by_claim):
    """Returns the p-values of the main claims of `DECISIVE` after Holm's correction, by the text of the claim.

    A claim of equality has the p-value of a test of equivalence.
    """
    main = {
        effect.text: _p_value(effect, found[DECISIVE].difference)
        for claims in by_claim.values()
        for effect, found in claims
        if DECISIVE in found and effect.decided.is_main
    }
    return dict(zip(main, holm(list(main.values()), MAIN_CLAIMS), strict=True))


def _p_value(effect, difference):
    return difference.p_value_within(effect_of_interest(effect)) if effect.is_equality else difference.p_value


def _shown(effect, name, recorded, pair):
    first, _, second = pair.partition(" [")[0].partition(" minus ")
    several = pair.partition(" [")[2].partition(" ")[0]
    seeds = tuple(range(int(several))) if several else ()
    return _judged(
        effect,
        name,
        recorded,
        (first, second),
        difference_of(recorded, pair),
        contrast((1, -1), *recorded.recalls((first, second), seeds), names=recorded.names((first, second))),
        len(seeds or recorded.seeds),
        effect.shown[name],
    )


def _judged(effect, name, recorded, rows, difference, of_rows, seeds, source):
    gains, learned = (tuple(each(recorded, row) for row in rows) for each in (amounts.gain, amounts.learned))
    deviation = effect.deviations.get(name)
    is_frozen = [is_closed_form(recorded.records(row)[0]) for row in rows]
    # A row that never trains cannot learn and cannot gain.
    learned = tuple(amounts.LEARNED if frozen else each for each, frozen in zip(learned, is_frozen, strict=True))
    gains = tuple(0.0 if frozen else each for each, frozen in zip(gains, is_frozen, strict=True))
    verdict = verdicts.verdict(
        difference,
        effect_of_interest(effect),
        is_flat=all(each is not None and each < amounts.FLAT for each in gains),
        has_learned=min(learned) >= amounts.LEARNED,
        explains=deviation.explains if deviation else "",
        is_equality=effect.is_equality,
    )
    reason = deviation.text.format(**amounts.facts_of(recorded, *rows[:2])) if deviation else ""
    images = amounts.images_per_learner(recorded, rows[0])
    last = sum(weight * amounts.of_last_models(recorded, row) for weight, row in zip(WEIGHTS, rows, strict=False))
    return Evidence(difference, of_rows, seeds, images, gains, learned, last, reason, verdict, source)


def _decided(effect, folder):
    """Returns the `Evidence` of the rows of `DECISIVE`, or None if they are not recorded."""
    decided = effect.decided
    if not (RECORDS / f"{DECISIVE}.jsonl").exists():
        return None
    names = (*decided.better, *decided.control, *decided.less)
    source = Source(DECISIVE, DECISIVE, ("--data_dir=data/cars",), decided.seeds, names)
    try:
        recorded = Recorded(source, folder)
        rows = tuple(_chosen(recorded, several) for several in (decided.better, decided.control))
        several = (*rows, *decided.less)
        of_rows = contrast(WEIGHTS[: len(several)], *recorded.recalls(several), names=recorded.names(several))
    except MissingRun:
        return None
    if decided.less:
        difference = Difference(*(100 * each for each in (of_rows.mean, *of_rows.interval())), of_rows.degrees)
    else:
        difference = difference_of(recorded, " minus ".join(rows))
    is_shown = {*several} <= {*SOURCES[DECISIVE].rows}
    shown = (DECISIVE, " minus ".join(rows)) if is_shown else None
    return _judged(effect, DECISIVE, recorded, several, difference, of_rows, len(decided.seeds), shown)


def _chosen(recorded, names):
    """Returns the row with the best setting on validation classes."""
    if len(names) == 1:
        return names[0]
    return max(names, key=lambda name: max(value for _, value in recorded.search.tried[name]))
