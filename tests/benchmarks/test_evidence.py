"""Pages of evidence are what the records say, and claim no more than their intervals hold."""

import dataclasses
import functools
import json
import re
import shlex
import subprocess
import sys
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

from benchmarks import evidence
from benchmarks.pages import effects, recorded
from benchmarks.pages.blocks import Blocks
from benchmarks.pages.catalog import PAGES, SOURCES
from benchmarks.pages.claims import Difference, claimed
from benchmarks.pages.claims import text_of as text_of_difference
from benchmarks.pages.evidence_of_claims import DECISIVE, Evidence
from benchmarks.pages.forest import forest
from benchmarks.pages.learning_curves import _apart, learning_curves
from benchmarks.pages.links import link_of
from benchmarks.pages.names import VARIANTS, of_variant
from benchmarks.pages.papers import PAPERS, SETS, Effect, Reported
from benchmarks.pages.recorded import Recorded
from benchmarks.pages.studies import Studies
from benchmarks.pages.svg import ticks
from benchmarks.pages.template import filled, matching, with_units
from benchmarks.pages.verdicts import AGREES, EXCLUDED
from tests.commands import ROOT

# Pages that other commands write.
ELSEWHERE = {"labels.md", "anchors.md", "small_vectors.md"}


class Study:
    """A study of two rows, of which B is better than A by 3 points or, with five seeds, by one that is not seen."""

    rows = ["A", "B, long", "B"]
    seeds = (0, 1, 2)
    study = SimpleNamespace(columns={"Recall@1": None, "steps": None})

    def difference(self, first, second, seeds=()):
        found = (1.0, -1.0, 3.04) if seeds else (3.0, 1.0, 5.0)
        return found if (first, second) == ("A", "B") else Difference(*found).turned()[:3]

    def cell(self, row, head):
        return {"A": "40.5 ± 1.0", "B": "43.5 ± 0.5", "B, long": "1,000"}[row]

    def results(self, row):
        return [{"untrained": {"recall_at_1": 0.25}}]


@pytest.fixture(scope="module")
def recorded_of(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return functools.cache(lambda name: Recorded(SOURCES[name], folder))


def committed(name):
    return (evidence.FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_and_its_pictures_are_written_anew(name, recorded_of):
    for file, text in evidence.written(name, recorded_of).items():
        assert committed(file) == text, f"run: python -m benchmarks.evidence {name}"
        if file.endswith(".svg"):
            ElementTree.fromstring(text)


def test_the_summaries_are_written_anew(recorded_of, tmp_path):
    texts = evidence.summaries(recorded_of, tmp_path)
    assert all(committed(file) == text for file, text in texts.items()), "run: python -m benchmarks.evidence"
    files = {path.name for path in evidence.FOLDER.iterdir()} - texts.keys()
    names = {file for file in files if file.endswith(".md")}
    assert names - ELSEWHERE == {f"{page}.md" for page in PAGES}
    assert all(f"]({name})" in texts["README.md"] for name in names)
    pictures = {file for name in names for file in files if f"]({file})" in committed(name)}
    assert names | pictures == files


def studies_of(study):
    """Returns `Studies` with a study that is selected, and the same one under another name."""
    return Studies({"emoji_losses": study, "cars_losses": study}.__getitem__, "emoji_losses")


def text_of(template, study=None):
    return filled(template, studies_of(study or Study()), {"table": lambda given: f"rows of {given}"})


def test_numbers_of_sentences_are_filled_in():
    assert text_of("B is {better: B minus A} better.") == "B is 3.0 points (1.0 to 5.0) better.\n"
    assert text_of("A is {worse: A minus B} behind.") == "A is 3.0 points (1.0 to 5.0) behind.\n"
    assert text_of("As good{so alike: A minus B [5 seeds]}{so alike: B minus A [5 seeds]}.") == "As good.\n"
    assert text_of("With {alike: B minus A [5 seeds]}.") == "With 1.0 points (-1.0 to 3.0).\n"
    assert text_of("{recall: A}, {spread: A}, {before: A}") == "40.5, 40.5 ± 1.0, 25.0\n"
    assert text_of("{value: steps; B, long} {range: Recall@1; *}") == "1,000 40.5 to 1,000\n"
    assert text_of("{range: Recall@1; *; not B, long}") == "40.5 to 43.5\n"


def test_rows_of_several_sets_are_side_by_side():
    cells = {"emoji: all": "40.5", "emoji: two | stages": "41.0", "cars: all": "30.5", "cars: two | stages": "29.0"}
    study = SimpleNamespace(rows=list(cells), cell=lambda row, head: cells[row] if head == "Recall@1" else "")
    table = Blocks("page", studies_of(study)).by_name["sets"]("Recall@1").splitlines()
    assert table[0] == "| Recall@1 | emoji | cars |"
    assert table[2:] == ["| all | 40.5 | 30.5 |", "| two \\| stages | 41.0 | 29.0 |"]


def test_rows_of_several_sources_are_side_by_side():
    one_seed = Study()
    one_seed.seeds = (0,)
    studies = Studies({"emoji_losses": Study(), "cars_losses": one_seed}.__getitem__)
    given = [
        "Recall@1 | Emoji = emoji_losses | Cars = cars_losses",
        "A",
        "the other | B | emoji_losses/B, long",
        "B vs. A | B minus A |",
    ]
    table = Blocks("page", studies).by_name["side by side"]("\n".join(given)).splitlines()
    assert table[0] == "| Recall@1 | Emoji | Cars |"
    assert table[2:] == [
        "| A | 40.5 ± 1.0 | *40.5 ± 1.0* |",
        "| the other | 43.5 ± 0.5 | 1,000 |",
        "| B vs. A | +3.0 (1.0 to 5.0) | – |",
    ]


def test_a_page_takes_its_numbers_from_several_sources():
    other = Study()
    other.cell = lambda row, head: "50.0"
    studies = Studies({"emoji_losses": Study(), "cars_losses": other}.__getitem__)
    template = "{recall: emoji_losses/A}\n\n{study: cars_losses}\n\n{recall: A}, {better: emoji_losses/B minus A}"
    assert filled(template, studies, {"study": studies.select}) == "40.5\n\n50.0, 3.0 points (1.0 to 5.0)\n"
    with pytest.raises(ValueError, match="has no paragraph `{study: NAME}` before its first number"):
        filled("{recall: A}", Studies({}.__getitem__), {})
    with pytest.raises(ValueError, match="The sources are .* Received: 'no_source'"):
        studies.select("no_source")


def test_links_lead_to_the_section_with_a_pair():
    pages = {source: link_of(source).partition("#")[0] for source in SOURCES}
    assert all((evidence.FOLDER / page).exists() for page in pages.values())
    link = link_of("cars_main", "ABE-4 minus 4-heads")
    page, _, anchor = link.partition("#")
    assert f"## {anchor.replace('-', ' ')}" in committed(page).lower().replace("-", " ").replace(",", "")
    with pytest.raises(ValueError, match="No page of docs/evidence shows 'no_source'"):
        link_of("no_source")


def test_differences_are_put_in_words_as_the_records_have_them():
    assert text_of("B is {compared: B minus A} A.") == "B is 3.0 points (1.0 to 5.0) better than A.\n"
    assert text_of("A is {compared: A minus B} B.") == "A is 3.0 points (1.0 to 5.0) worse than B.\n"
    doubtful = "B is 1.0 points (-1.0 to 3.0, not significant) better than A.\n"
    assert text_of("B is {compared: B minus A [5 seeds]} A.") == doubtful


def test_the_first_interval_of_a_page_names_its_units():
    template = with_units("B is {compared: B minus A} A or {better: B minus A} better.")
    first = "B is 3.0 percentage points (95% confidence interval: 1.0 to 5.0) better than A"
    assert text_of(template) == f"{first} or 3.0 points (1.0 to 5.0) better.\n"
    assert text_of("As good{so\n  alike: A minus B [5 seeds]}.") == "As good.\n"


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ("L, M, H", "levels L, M and H"),
        ("H, 384 dimensions", "level H, 384 dimensions"),
        (
            "K = 4, in proportion to images, four times the steps",
            "Divide and Conquer (K = 4), proportional batches, 4× steps",
        ),
        ("emoji: the embedding alone, 0.001", "emoji: embedding layer only, learning rate 0.001"),
        ("EDMS (RW, P*), K = 10", "EDMS (RW, P*): walks, hard proxies, 10 meta-classes"),
        ("N-pair", "N-pair"),
    ],
)
def test_variants_have_display_names(row, shown):
    assert of_variant(row) == shown


def test_every_display_name_belongs_to_a_variant(recorded_of):
    rows = [row for source in SOURCES for row in recorded_of(source).rows]
    assert not [part for part in VARIANTS if not any(part in row for row in rows)]


def test_paragraphs_are_wrapped_and_blocks_stay():
    words = "word " * 40
    page = text_of(f"# {words}\n\n{{table: Recall@1\nA}}\n\n- {words}\n- {words}")
    assert page.startswith(f"# {words.strip()}") and "\n\nrows of Recall@1\nA\n\n- word" in page
    lines = page.splitlines()[5:]
    assert max(map(len, lines)) <= 120 and [line[:2] for line in lines] == ["- ", "  ", "- ", "  "]


def test_a_claim_that_the_interval_does_not_hold_is_named_with_its_sentence():
    sentence = (
        r"'It is \{better: B minus A \[5 seeds\]\} ahead\.': Expected an interval above 0. The records have \+1.0 "
    )
    with pytest.raises(ValueError, match=sentence + r"\(-1.0 to 3.0\)"):
        text_of("First. It is {better: B minus A [5 seeds]} ahead. Last.")


@pytest.mark.parametrize(
    ("claim", "found"),
    [
        ("better", (1.0, 0.0, 2.0)),
        ("better", (-2.0, -3.0, -1.0)),
        ("worse", (-1.0, -2.0, 0.0)),
        ("alike", (1.0, 0.1, 2.0)),
        ("alike", (-1.0, -2.0, 0.5)),
    ],
)
def test_claims_are_checked(claim, found):
    with pytest.raises(ValueError, match="The records have"):
        claimed(claim, Difference(*found))


def test_equal_needs_a_narrow_interval():
    # The 90% interval of a standard error of 0.5 is the mean ± 0.82.
    narrow, wide = Difference(1.1, 0.12, 2.08), Difference(1.1, -1.0, 3.2)
    assert claimed("equal", narrow)[0] == "1.1" and claimed("alike", wide)[0] == "1.1"
    for found in (wide, Difference(1.3, 0.32, 2.28), Difference(-0.5, -0.6, -0.4)):
        with pytest.raises(ValueError, match="Expected a 90% interval within 2 points of 0 and a mean of at least 0"):
            claimed("equal", found)


def test_the_minimum_detectable_effect_is_seen_in_80_percent_of_studies():
    random, degrees = np.random.default_rng(0), 6
    found = Difference(0, -stats.t.isf(0.025, degrees), stats.t.isf(0.025, degrees), degrees)
    assert found.error == pytest.approx(1)
    means = random.normal(found.detectable, 1, 20000)
    errors = np.sqrt(random.chisquare(degrees, 20000) / degrees)
    assert np.mean(np.abs(means / errors) > stats.t.isf(0.025, degrees)) == pytest.approx(0.8, abs=0.02)
    of_scipy = stats.ttest_1samp([1.0, 2.0, 4.0, 3.0, 1.5, 0.5, 2.5], 0)
    low, high = of_scipy.confidence_interval(0.95)
    found = Difference((low + high) / 2, low, high, 6)
    assert found.p_value == pytest.approx(of_scipy.pvalue)
    # A test of equivalence is two tests with one side, and the larger p-value counts.
    of_sides = [
        stats.ttest_1samp([1.0, 2.0, 4.0, 3.0, 1.5, 0.5, 2.5], bound, alternative=side).pvalue
        for bound, side in ((-3, "greater"), (3, "less"))
    ]
    assert found.p_value_within(3) == found.turned().p_value_within(3) == pytest.approx(max(of_sides))
    assert Difference(2, 2, 2).p_value_within(2) == 1 and Difference(1, 1, 1).p_value_within(2) == 0


def test_bounds_near_0_show_their_side():
    assert text_of_difference(Difference(-2.1, -4.1, -0.036)) == "-2.1 (-4.1 to -0.04)"
    assert text_of_difference(Difference(1.1, 0.04, 2.3)) == "+1.1 (0.04 to 2.3)"
    assert text_of_difference(Difference(1.1, 0.0, 2.3)) == "+1.1 (0.0 to 2.3)"


def test_words_without_numbers_are_checked():
    with pytest.raises(
        ValueError, match="Expected an interval that contains 0 and a mean of at least 0. The records have"
    ):
        text_of("A is as good as B{so alike: A minus B}.")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{better: B}", "Expected `A minus B`"),
        ("{worse: C minus A}", "Received: 'C minus A'"),
        ("{recall: C}", "The records have no row 'C'"),
        ("{value: NMI; A}", "The columns are Recall@1, steps. Received: 'NMI'"),
        ("{best: A}", "A marker starts with one of better"),
    ],
)
def test_what_a_marker_cannot_be_is_told(template, message):
    with pytest.raises(ValueError, match=message):
        text_of(template)


def test_names_of_rows_may_have_stars():
    names = ["EDMS (RW, P*)", "EDMS (RW, P*), 10 members", "a [1]"]
    assert matching(["EDMS (RW, P*)"], names) == names[:1]
    assert matching(["*members", "EDMS*", "a [*]"], names) == [names[1], names[0], names[2]]


def test_pictures_of_differences_have_full_dots_where_something_is_seen():
    found = {"seen": (2, 1, 3), "not seen": (1, -1, 2), "behind & seen": (-2, -3, -1)}
    drawn = forest("title", [("heading", None), *((name, Difference(*each)) for name, each in found.items())])
    kinds = [each.get("class") for each in ElementTree.fromstring(drawn).iter() if each.tag.endswith("circle")]
    assert kinds == ["full", "hollow", "full"] and "+1.0 (-1.0 to 2.0)" in drawn and "behind &amp; seen" in drawn


def evidence_on(verdict, *found):
    return Evidence(Difference(*found), None, 3, 100, (0, 0), (5, 5), 1.0, "", verdict, ("page", "A minus B"))


def test_verdicts_have_their_own_marks():
    effect = Effect("Few beat many", {}, Reported(4, "SOP"))
    found = {"emoji": evidence_on(AGREES, 3, 2, 5), "cars": evidence_on(EXCLUDED, -20, -30, -10)}
    drawn = ElementTree.fromstring(effects.picture({"A paper": [(effect, found)], "Another": [(effect, {})]}))
    kinds = [(each.tag.rpartition("}")[2], each.get("class")) for each in drawn.iter() if each.get("class")]
    # The legend has one mark for each verdict.
    assert kinds.count(("circle", "mark agrees")) == 2 and kinds.count(("circle", "ring cannot-tell")) == 1
    assert kinds.count(("line", "line excluded")) == 2 + 2 + 1 and kinds.count(("polyline", "line excluded")) == 1
    # The effect of the paper is in each row that was measured, and in the legend.
    assert kinds.count(("line", "paper")) == 3
    words = [each.text for each in drawn.iter() if each.tag.endswith("text")]
    assert words.count("not measured") == len(SETS) - 2 and "Another" not in words and "A paper" in words
    decided = {**found, DECISIVE: evidence_on(AGREES, 3, 2, 5)}
    drawn = effects.picture({"A paper": [(effect, decided)]})
    assert drawn.count('"mark agrees"') == 3 and "polyline" not in drawn


def test_effects_name_pages_and_sets():
    shown = [effect.shown for several in PAPERS.values() for effect in several]
    assert len(shown) >= 20 and {name for each in shown for name in each} <= SETS.keys()
    assert {source for each in shown for source, _ in each.values()} <= SOURCES.keys()


def test_records_that_are_not_there_or_of_other_flags_are_refused(tmp_path, monkeypatch):
    source = SOURCES["lifted"]
    several = Recorded(source, tmp_path)
    assert several.rows and not Recorded(dataclasses.replace(source, seeds=(1, 9)), tmp_path).rows
    with pytest.raises(ValueError, match=r"docs/records/lifted.jsonl has no run toycars_lifted-.*-seed9"):
        several.records("lifted", seeds=(9,))
    changed = {"margin": "--loss=lifted_structure(margin=2.0)"}
    monkeypatch.setattr(recorded, "resolved", lambda flags: changed)
    with pytest.raises(ValueError, match="was recorded with --.*, but its row no longer has this flag"):
        several.records("lifted")


def test_more_curves_than_can_be_told_apart_are_refused():
    with pytest.raises(ValueError, match="A picture has at most 6 curves. Received: 7 curves"):
        learning_curves("title", dict.fromkeys("abcdefg", []))


def test_the_command_writes_named_pages_and_tells_what_is_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["evidence", "no_page"])
    with pytest.raises(SystemExit):
        evidence.main()
    assert "unknown pages: no_page" in capsys.readouterr().err
    (tmp_path / "lifted_structure.md").write_text(
        "{study: lifted}\n\nIt is {worse: lifted minus lifted, random negatives} behind."
    )
    monkeypatch.setattr(evidence, "TEMPLATES", tmp_path)
    monkeypatch.setattr(evidence, "ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", ["evidence", "lifted_structure"])
    with pytest.raises(SystemExit, match="lifted_structure.md: 'It is .* behind.': Expected an interval below 0"):
        evidence.main()


def test_axes_have_round_numbers_and_letters_are_apart():
    assert ticks(-1.2, 3.4) == [-2, -1, 0, 1, 2, 3, 4] and ticks(0, 800) == [0, 200, 400, 600, 800]
    assert _apart([10, 50, 12]) == [10, 50, 22]


RECORDS = ROOT / "docs/records/stores"


@pytest.fixture(scope="module")
def printed():
    stores = ["--stores", "folder", "PostgreSQL", f"--records={RECORDS}"]
    command = [sys.executable, "-m", "benchmarks.speed.stores", "--rows", "100000", "1000000", *stores]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.nightly
def test_tables_are_printed_from_records(printed):
    tables = printed.strip().split("\n\n")
    assert len(tables) == 2
    page = (ROOT / "docs/vector_databases.md").read_text(encoding="utf-8")
    assert all(table in page for table in tables)


def test_records_answer_what_the_text_says(printed):
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.split("\n\n")[0].splitlines()[2:]]
    hnsw = [row for row in rows if row[2].startswith("hnsw")]
    assert all(float(row[3]) >= 0.95 for row in hnsw)
    records = [each for path in RECORDS.iterdir() for each in json.loads(path.read_text())]
    assert len(records) == 12 and all(each["filtered"][0] == 1 for each in records)
    times = {(row[0], row[1]): float(row[4]) for row in hnsw}
    ratios = [times[size, "PostgreSQL"] / times[size, "folder"] for size in ("100,000", "1,000,000")]
    assert all(5 <= ratio <= 16 for ratio in ratios), "docs/several_devices.md says so"


@pytest.mark.nightly
def test_the_table_on_small_vectors_is_printed_from_records():
    page = (ROOT / "docs/evidence/small_vectors.md").read_text()
    large, rows, server = {}, {}, {}
    for command in re.findall(r"python (-m benchmarks.speed.small_vectors .*)\n", page):
        run = [sys.executable, *shlex.split(command)]
        table = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout.partition("\n\n")[2]
        assert table.strip() in page
        for line in table.strip().splitlines()[2:]:
            size, store, kind, *cells = [cell.strip() for cell in line.split("|")[1:-1]]
            of_size = server if store == "PostgreSQL" else {"100,000": rows, "1,000,000": large}[size]
            of_size[kind] = dict(
                zip(("first", "recall", "time", "few", "in few", "read", "stored"), cells, strict=True)
            )
    # What the pages say of them.
    assert large["int8(rescore=4)"]["recall"] == "1.000" and large["binary(rescore=4)"]["recall"] == "0.855"
    assert large["binary(rescore=16)"]["recall"] == "1.000"
    time, read = (
        {kind: float(row[name]) / float(rows["flat"][name]) for kind, row in rows.items()} for name in ("time", "read")
    )
    assert time["int8(rescore=4)"] < 0.6 and read["int8(rescore=4)"] < 0.26 and read["binary(rescore=4)"] < 0.051
    assert all(row["in few"] == "1.000" for kind, row in rows.items() if "rescore=0" not in kind)
    recalls = {kind: f"{float(row['recall']):.0%}" for kind, row in server.items()}
    assert recalls == {"flat": "100%", "hnsw": "99%", "binary(rescore=4)": "83%", "binary(rescore=16)": "89%"}
    assert all(float(server["hnsw"]["time"]) < float(server[kind]["time"]) for kind in server if "binary" in kind)
    short = (ROOT / "docs/large_collections.md").read_text()
    found = re.findall(r"^\| `(.*?)` \| (\d+) \| ([\d.]+%) \| ([\d.]+)% \|$", short, re.MULTILINE)
    assert len(found) == 7
    for kind, read, first, recall in found:
        row = rows[kind]
        # The record has 0.8685, of which both are roundings.
        assert (read, first) == (row["read"], row["first"]) and abs(float(recall) - 100 * float(row["recall"])) <= 0.1


def test_sentences_about_equality_have_a_test_of_equivalence():
    """A difference that is not significant may still be several points."""
    words = re.compile(
        r"(as good as|makes no difference|hardly matters|does not matter|(is|are) level with|nothing changes)"
    )
    for path in sorted(evidence.TEMPLATES.glob("*.md")):
        for sentence in re.split(r"(?<=[.:?!])\s+", " ".join(path.read_text(encoding="utf-8").split())):
            is_checked = "equal:" in sentence or "in the paper" in sentence.lower()
            assert is_checked or not words.search(sentence), f"{path.name}: {sentence}"
