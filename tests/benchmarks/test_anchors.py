"""The page with published scores is what the records say, and its verdicts follow from intervals."""

import pytest

from benchmarks.pages import anchors


def market(recall, interval, best=None):
    scores = {"recall_at_1": recall, "map": 0.5}
    best = {"recall_at_1": recall if best is None else best}
    return {"result": {"metrics": scores, "best": best, "intervals": {"recall_at_1": interval}}}


def test_the_page_is_written_anew():
    text = anchors.PAGE.read_text(encoding="utf-8")
    assert text == anchors.recorded_page(), "run: python -m benchmarks.pages.anchors"


@pytest.mark.parametrize(
    "interval, words",
    [
        ((0.84, 0.8559), "is below the published score"),
        ((0.84, 0.856), "reaches the published score"),
        ((0.8561, 0.87), "exceeds the published score"),
    ],
)
def test_a_verdict_follows_from_the_interval(interval, words):
    page = anchors.Anchors({"softmax-large": market(0.85, interval)}, {})
    assert page.number("verdict of softmax-large") == words


def test_rows_without_a_record_are_omitted():
    reranked = {"result": {"recall_at_1": 0.9, "map": 0.75}}
    records = {"softmax-large": market(0.8512, (0.84, 0.862)), "softmax-large-reranked": reranked}
    lines = anchors.Anchors(records, {}).market().splitlines()
    assert len(lines) == 4 and "| 85.6 | 67.3 |" in lines[2]
    assert lines[3] == "| Softmax | 256 × 128 | 85.1 (84.0 to 86.2) | 50.0 | 90.0 | 75.0 |"


def test_an_interval_of_another_model_is_an_error():
    page = anchors.Anchors({"softmax-large": market(0.85, (0.84, 0.86), best=0.86)}, {})
    with pytest.raises(ValueError, match="interval of another model"):
        page.market()


def test_a_difference_has_its_interval():
    metrics = {"map": {"difference": -0.0213, "interval": [-0.041, 0.002]}}
    page = anchors.Anchors({"recommended-small minus softmax-small": {"result": {"metrics": metrics}}}, {})
    assert page.number("difference of map after small") == "-2.1 (-4.1 to +0.2)"


def test_an_unknown_marker_is_an_error():
    with pytest.raises(ValueError, match="Expected a marker such as"):
        anchors.Anchors({}, {}).number("recall: A")


def test_a_learner_alone_has_its_own_scores():
    records = {"levels": {"result": {"learners": {"alone": [{"map": 0.21}, {"map": 0.432}]}}}}
    assert anchors.Anchors(records, {}).number("market levels: map of learner 1") == "43.2"
