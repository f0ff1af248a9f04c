"""Tables of scores, learners and comparisons."""

import re

from tfdml.reporting.tables import compared_runs, differences_table, learners_tables, pairs_table, scores_table, titled


def cells(text):
    rows = re.findall(r"<tr>(.*?)</tr>", text)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_scores_with_intervals_and_gaps():
    rows = {"Before": {"recall_at_1": 0.25, "queries": 8}, "Best": {"recall_at_1": 0.5, "nmi": None, "step": 3}}
    about = {"Best": {"recall_at_1": [0.4, 0.6]}}, {"Before": {"recall_at_1": 0.0126}}
    made = cells(scores_table("Test", rows, *about))
    assert made == [
        ["Model", "Recall@1", "NMI"],
        ["Before", "25.0% ± 1.3", "–"],
        ["Best", "50.0%<small>40.0 to 60.0</small>", "–"],
    ]


def test_names_of_metrics():
    names = ["recall_at_10", "map_at_r", "map", "f1", "r_precision", "positive_distance"]
    assert [titled(name) for name in names] == ["Recall@10", "MAP@R", "mAP", "F1", "R-precision", "positive distance"]


def test_learners_alone_and_together():
    metrics = [{"recall_at_1": 0.2, "queries": 4}, {"recall_at_1": 0.3, "queries": 4}]
    first = [{"recall_at_1": 0.2}, {"recall_at_1": 0.4}]
    learners = {"alone": metrics, "first": first, "only_one": [1, 2], "correlation": 0.125}
    made = learners_tables(learners, ["a<", "b"], {"parameters": 1234, "multiply_adds": None})
    assert cells(made)[1:] == [["a&lt;", "20.0%", "20.0%", "1"], ["b", "30.0%", "40.0%", "2"]]
    assert "is 0.125." in made and "1,234 parameters." in made
    assert learners_tables(None) is None


def test_differences_say_who_is_better():
    same = {"difference": -0.01, "interval": [-0.02, 0.01], "better": None}
    found = {"recall_at_1": {"difference": 0.1, "interval": [0.05, 0.2], "better": "b"}, "map": same}
    made = differences_table("A", "B", found)
    assert "<strong>+10.0 points better</strong><small>+5.0 to +20.0</small>" in made
    assert "<span>−1.0 points</span><small>−2.0 to +1.0</small>" in made
    found["map"] = {**same, "better": "a"}
    assert "<strong>−1.0 points worse</strong>" in differences_table("A", "B", found)


def test_pairs_say_who_is_better():
    names = {"first": "A: x", "second": "B: <y>"}
    pair = {**names, "difference": 0.1, "interval": [0.05, 0.2], "p": 0.0123, "better": "B: <y>"}
    made = cells(pairs_table({"recall_at_1": {"pairs": [pair]}, "map": {"pairs": [{**pair, "better": "A: x"}]}}))
    assert made[0] == ["Runs", "Recall@1", "mAP"] and made[1][0] == "B − A"
    assert made[1][1] == "<strong>+10.0 points better</strong><small>+5.0 to +20.0, p = 0.012</small>"
    assert made[1][2].startswith("<strong>+10.0 points worse</strong>")
    made = pairs_table({"map": {"pairs": [{**pair, "better": None}]}})
    assert "<span>+10.0 points</span>" in made and "corrected for the number of pairs" in made


def test_runs_share_what_is_the_same():
    main = {"A": {"loss": "triplet", "seed": 0}, "B": {"loss": "triplet", "seed": 1}}
    made = compared_runs(main, main)
    assert "<dt>Loss</dt><dd>triplet</dd>" in made and cells(made)[1] == ["--seed", "<code>0</code>", "<code>1</code>"]
    assert "--loss" not in made and "<table" not in compared_runs({"A": main["A"]}, {"A": main["A"]})
