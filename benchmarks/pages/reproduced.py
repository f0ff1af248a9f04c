"""The page of all claims: a table for each paper, and what was measured for each claim."""

import statistics

from benchmarks.markdown import markdown
from benchmarks.pages import verdicts
from benchmarks.pages.claims import text_of
from benchmarks.pages.evidence_of_claims import (
    DECISIVE,
    MAIN_CLAIMS,
    NAMES,
    best_of,
    decided_p_values,
    effect_of_interest,
    overall,
)
from benchmarks.pages.links import link_of
from benchmarks.pages.template import wrapped

# Recall@1 that papers print for Cars196: ranked list loss with one level of 64 dimensions (its Table III), margin loss
# with 128 dimensions (Table 2 of Divide and Conquer), and EDMS with ResNet-18 (its Table 3).
PAPERS_SINGLE, PAPERS_BEST = (73.7, 79.6), 87.6
SINGLE = ("N-pair", "Proxy-NCA", "H")
NONE = "–"


def levels(recorded_of, first_runs, has_anchors):
    """Returns two lines on the absolute Recall@1 here and in the papers.

    Args:
        recorded_of: Function from the name of a source to its `Recorded` study.
        first_runs: Records of the default configuration, by run.
        has_anchors: Whether there is a page that compares with published numbers.
    """
    main = recorded_of("cars_main")
    single = sorted(100 * statistics.mean(each["best"]["recall_at_1"] for each in main.results(row)) for row in SINGLE)
    best = 100 * first_runs["cars"]["result"]["best"]["recall_at_1"]
    elsewhere = " [Comparison with published scores](anchors.md) has such numbers." if has_anchors else ""
    lines = (
        f"- **Absolute levels differ.** On half of Cars196, a single embedding has a Recall@1 of {single[0]:.0f}% to "
        f"{single[-1]:.0f}% here, and our best run has {best:.1f}%. On all of Cars196, the papers "
        f"print {PAPERS_SINGLE[0]}% to {PAPERS_SINGLE[1]}% for a single embedding, and up to {PAPERS_BEST}% for their "
        "methods.",
        "- **No published number was reproduced** on this page. Images, networks and runs are smaller than in the "
        f"papers, so we only compare effects: differences between two rows that we trained ourselves.{elsewhere}",
    )
    return "\n".join(map(wrapped, lines))


def legend():
    """Returns the list of verdicts."""
    return "\n".join(wrapped(f"- **{name.capitalize()}.** {meaning}") for name, meaning in verdicts.VERDICTS.items())


def papers(by_claim):
    """Returns a section for each paper.

    Args:
        by_claim: What `evidence_of_claims.evidence_by_claim` returns.
    """
    p_values = decided_p_values(by_claim)
    sections = []
    for paper, claims in by_claim.items():
        rows = [
            [effect.text, _reported(effect), _best(effect, found), _verdict(effect, found)] for effect, found in claims
        ]
        heads = ["Claim", "Effect in the paper", "Best evidence here (95% CI)", "Verdict"]
        sections += [f"## {paper}", markdown(heads, rows)]
        sections += [_claim(effect, found, p_values.get(effect.text)) for effect, found in claims]
    return "\n\n".join(sections)


def _claim(effect, found, p_value):
    """Returns the section of a claim: its differences in a table, then reasons and what would tell."""
    parts = [f"### {effect.text}"]
    told = [each for each in (effect.reported.note if effect.reported else "", effect.note) if each]
    if told:
        parts.append(wrapped(" ".join(told)))
    if found:
        heads = ["Dataset", "Difference (95% CI)", "Seeds", "Images per learner", "Late gain", "MDE", "Verdict"]
        parts.append(markdown(heads, [_row(effect, name, each) for name, each in found.items()]))
    items = [f"Images per learner in the paper: {effect.reported.images}."] if _has_images(effect) else []
    items += _reasons(effect, found)
    items += _unconfirmed(effect, found)
    items += [
        f"The last models differ in the other direction on {_within(name)}, by {each.last:+.1f} points."
        for name, each in found.items()
        if each.last * each.difference.mean < 0 and not effect.is_equality
    ]
    if p_value is not None:
        items.append(f"The p-value after the correction of {MAIN_CLAIMS} claims by Holm's method is {p_value:.2g}.")
    if DECISIVE not in found and effect.tells:
        items.append(_tells(effect))
    parts += ["\n".join(wrapped(f"- {item}") for item in items)] if items else []
    return "\n\n".join(parts)


def _row(effect, name, each):
    late = " and ".join(NONE if gain is None else f"{gain:+.1f}" for gain in each.gains[:2])
    untrained = "" if each.is_trained else ", not trained"
    return [
        NAMES[name],
        _linked(each),
        str(each.seeds),
        f"{each.images:,}",
        late,
        f"{each.difference.detectable:.1f}",
        f"{each.verdict}{untrained}",
    ]


def _reasons(effect, found):
    """Returns a sentence for each reason of a verdict that tells nothing, with the datasets that it is about."""
    by_reason = {}
    for name, each in found.items():
        reason = _reason(effect, each)
        if reason:
            by_reason.setdefault((each.verdict, reason), []).append(_within(name))
    return [f"{verdict.capitalize()} on {_listed(names)}: {why}." for (verdict, why), names in by_reason.items()]


def _reason(effect, each):
    found, interest = each.difference, effect_of_interest(effect)
    if each.verdict == verdicts.NOT_FAIR:
        return each.reason
    if each.verdict != verdicts.CANNOT_TELL:
        return ""
    if not each.is_trained:
        return "a variant has not learned"
    if effect.is_equality:
        return "the interval is too wide for a test of equality"
    if not found.is_significant and found.detectable > interest:
        return f"the study could not have seen an effect of {interest:.1f} points"
    if found.high >= interest:
        return f"the interval contains both 0 and the effect of {interest:.1f} points"
    if None in each.gains:
        return "the records do not show whether the variants still improve"
    return "a variant still improves"


def _unconfirmed(effect, found):
    """Returns a sentence on datasets that agree on their own but not after the correction."""
    if effect.is_equality or DECISIVE in found:
        return []
    names = [_within(name) for name, each in found.items() if each.difference.low > 0 and not each.is_confirmed]
    names = [] if any(each.is_confirmed and each.difference.low > 0 for each in found.values()) else names
    return [f"Not significant after the correction for all differences: {_listed(names)}."] if names else []


def _tells(effect):
    """Returns a sentence on the rows that would change the verdict."""
    if effect.decided is None:
        return f"What would decide it: {effect.tells}."
    decided = effect.decided
    better, control = map(_best_row, (decided.better, decided.control))
    return (
        f"Claim {decided.claim} of `benchmarks.study decisive` will decide this. It compares {better} with {control}: "
        f"{effect.tells}. Its results are not recorded yet."
    )


def _best_row(names):
    quoted = _listed([f'"{name}"' for name in names])
    return quoted if len(names) == 1 else f"the best of {quoted} on validation classes"


def _reported(effect):
    if effect.reported is None:
        return NONE
    return f"{effect.reported.points:+.1f}, {effect.reported.where} ({effect.reported.baseline})"


def _best(effect, found):
    name = best_of(effect, found)
    return f"{_linked(found[name])}, {_within(name)}" if name else "not measured"


def _verdict(effect, found):
    return f"**{overall(effect, found)}**"


def _linked(each):
    """Returns a difference, in bold if it is confirmed, as a link to the page of its rows."""
    mark = "**" if each.is_confirmed else ""
    told = f"{mark}{text_of(each.difference)}{mark}"
    return f"[{told}]({link_of(*each.source)})" if each.source else told


def _within(name):
    """Returns the name of a dataset within a sentence."""
    return NAMES[name] if name == "omniglot" else NAMES[name][0].lower() + NAMES[name][1:]


def _has_images(effect):
    return effect.reported is not None and effect.reported.images


def _listed(names):
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
