"""Verdicts on claims, assigned by rule. benchmarks/studies/rows/decisive.py fixed the first four before its runs."""

AGREES, WEAKER, EXCLUDED, CANNOT_TELL = "agrees", "weaker", "excluded", "cannot tell"
NOT_FAIR = "not a fair test"
# In the order of the legend, with their meanings.
VERDICTS = {
    AGREES: "The interval is above 0 and reaches the effect of interest.",
    WEAKER: "The interval is above 0 and below the effect of interest.",
    EXCLUDED: "The interval is not above 0 and ends below the effect of interest, and neither variant still improves.",
    CANNOT_TELL: "Everything else: the study could not have seen the effect, a variant has not learned, or one still "
    "improves.",
    NOT_FAIR: "The study differs from the paper in a way that plausibly explains the outcome.",
}
# What a deviation from the paper explains: that an effect is absent or small, that there is one, or either.
ABSENCE, PRESENCE, EITHER = "absence", "presence", "either"
EXPLAINED = {
    ABSENCE: (EXCLUDED, CANNOT_TELL),
    PRESENCE: (AGREES, WEAKER),
    EITHER: (AGREES, WEAKER, EXCLUDED, CANNOT_TELL),
}


def verdict(found, effect, *, is_flat, has_learned, explains="", is_equality=False):
    """Returns the verdict on a claim from one dataset.

    Args:
        found: The `Difference` that was measured, above 0 if the claim holds.
        effect: The effect of interest in percentage points: the paper's effect, or `claims.EQUIVALENT` without one.
        is_flat: Whether both rows gained less than `amounts.FLAT` in the last quarter of the steps.
        has_learned: Whether both rows are at least `amounts.LEARNED` above their initial weights.
        explains: What a listed deviation from the paper explains: `ABSENCE`, `PRESENCE`, `EITHER` or nothing.
        is_equality: Whether the claim is that two rows are equal, within the effect of interest.
    """
    how = _equality if is_equality else _effect
    alone = how(found, effect, is_flat) if has_learned else CANNOT_TELL
    return NOT_FAIR if explains and alone in EXPLAINED[explains] else alone


def _effect(found, effect, is_flat):
    if found.low > 0:
        return AGREES if found.high >= effect else WEAKER
    could_be_seen = found.high < 0 or found.detectable <= effect
    return EXCLUDED if found.high < effect and is_flat and could_be_seen else CANNOT_TELL


def _equality(found, effect, is_flat):
    if found.is_within(effect):
        return AGREES
    return EXCLUDED if found.is_significant and max(-found.low, found.high) > effect else CANNOT_TELL


def overall(verdicts, is_equality=False):
    """Returns the verdict on a claim from its verdicts on several datasets.

    Only fair and conclusive tests count. If they contradict each other, the result is `CANNOT_TELL`. Rows are equal
    only if they are equal on all datasets.

    Args:
        verdicts: List of verdicts. If empty, nothing was measured.
        is_equality: Whether the claim is that two rows are equal.
    """
    told = {each for each in verdicts if each in (AGREES, WEAKER, EXCLUDED)}
    if is_equality:
        alone = set(verdicts)
        return EXCLUDED if EXCLUDED in told else alone.pop() if len(alone) == 1 else CANNOT_TELL
    if told == {AGREES, WEAKER}:
        return WEAKER
    if told:
        return told.pop() if len(told) == 1 else CANNOT_TELL
    return NOT_FAIR if NOT_FAIR in verdicts else CANNOT_TELL
