"""The blocks of a page: its setup, tables, forest plots and learning curves."""

import re
from collections import Counter

from benchmarks.markdown import markdown
from benchmarks.pages.claims import difference_of, text_of
from benchmarks.pages.forest import forest
from benchmarks.pages.learning_curves import learning_curves
from benchmarks.pages.names import of_column, of_variant
from benchmarks.pages.recorded import FIRST_RUNS
from benchmarks.pages.template import cell_of, matching, wrapped
from benchmarks.studies import first_runs
from tfdml.run.study.records import read

# A cell with two numbers is hard to read.
LEFT_OUT = ("negatives within, between",)
# The flags in the table of settings, and their display names.
ABOUT = {
    "dataset": "Dataset spec",
    "image_size": "Image size in pixels",
    "backbone": "Backbone",
    "initial_weights": "Initial weights",
    "method": "Method",
    "embedding_size": "Embedding size",
    "loss": "Loss",
    "sampler": "Sampler",
    "optimizer": "Optimizer",
    "schedule": "Learning rate schedule",
    "steps": "Training steps",
    "epochs": "Epochs",
}


# The dataset of each file of records, with a link to its page.
SETS = {
    "cars": "half of [Cars196](../datasets.md#half-of-cars196)",
    "decisive": "half of [Cars196](../datasets.md#half-of-cars196)",
    "validation_by_maker": "half of [Cars196](../datasets.md#half-of-cars196)",
    "emoji": "[emoji](../datasets.md#emoji)",
    "advice_on_emoji": "[emoji](../datasets.md#emoji)",
    "omniglot": "[Omniglot](../datasets.md#omniglot)",
    "toycars": "the built-in [toy cars](../data.md)",
    "fine_tuning": "[emoji, cars and Omniglot](../datasets.md)",
    "heads/cars": "features of half of [Cars196](../datasets.md#half-of-cars196)",
    "heads/emoji": "features of [emoji](../datasets.md#emoji)",
}
# Explains the numbers of a page to readers who have not seen another one.
LEGEND = (
    "Recall@1 is measured on test classes, in percent. Tables show the mean ± standard deviation over seeds. "
    "Intervals in parentheses are 95% confidence intervals, and a difference is *significant* if its interval does not "
    "contain 0. In tables, numbers in italics are results of **one seed**. Their intervals have the variation between "
    "seeds of other variants. [How to read these pages](README.md#how-to-read-a-page) "
    "explains the columns and the names of the variants."
)
CHOSEN = (
    "These settings were selected on the validation classes. Variants that are not listed use the settings of the "
    "variant that they modify."
)
# Stands in cells without a result.
NONE = "–"
# Values of flags that have no effect.
UNTOLD = ("", "0", "constant")


class Blocks:
    """The blocks of a page, and the pictures that they add to its folder.

    Args:
        name: Name of the page. The names of its pictures start with it.
        studies: The `Studies` of the page.
    """

    def __init__(self, name, studies):
        self._name, self._studies = name, studies
        self.pictures = {}
        self.by_name = {
            "study": studies.select,
            "legend": lambda given: wrapped(LEGEND),
            "first runs": lambda given: first_runs.table(read(FIRST_RUNS)),
            "setup": self._setup,
            "table": self._table,
            "sets": self._sets,
            "side by side": self._side_by_side,
            "ranking": lambda given: self._table(given, best_first=True),
            "settings": self._settings,
            "forest": self._forest,
            "curves": self._curves,
        }

    @property
    def _recorded(self):
        return self._studies.selected

    def _setup(self, given):
        """A table of the flags that most rows share, with seeds and settings, and the command."""
        source, rows = self._recorded.source, self._recorded.rows
        records = {name: self._recorded.records(name) for name in rows}
        flags = {name: _flags(found[0]) for name, found in records.items()}
        common = {flag: Counter(each[flag] for each in flags.values()).most_common(1)[0] for flag in ABOUT}
        about = [
            (told, f"`{common[flag][0]}`")
            for flag, told in ABOUT.items()
            if common[flag][0] not in UNTOLD and 2 * common[flag][1] > len(rows)
        ]
        about.insert(0, ("Dataset", SETS.get(source.records, SETS["toycars"])))
        # A study on several datasets has the queries of each.
        measured = [found[0]["measured"] for found in records.values()]
        queries = list(dict.fromkeys((*each["queries"], len(set(each.get("groups", ())))) for each in measured))
        about.append(("Test set", "; ".join(_test_set(each[:-1], each[-1]) for each in queries)))
        about.append(("Seeds", ", ".join(map(str, source.seeds))))
        if self._recorded.search:
            count = len(next(iter(self._recorded.search.tried.values())))
            more = "".join(f", `{flag}`" for flag in self._recorded.search.searching)
            about.append(("Settings per variant", f"{count} tried, selected on validation classes with seed 0{more}"))
        seconds = sum(record["result"]["seconds"] for found in records.values() for record in found)
        about.append(("Total training time", f"{seconds / 3600:.1f} hours"))
        about.append(("Records", f"[{source.records}.jsonl](../records/{source.records}.jsonl)"))
        command = ["python -m benchmarks.study", source.study, *(_quoted(flag) for flag in source.flags)]
        if source.seeds != (0, 1, 2):
            command.append(f"--seeds={','.join(map(str, source.seeds))}")
        command += [f"--row={_quoted(row)}" for row in source.rows]
        command += [f"--records=docs/records/{source.records}.jsonl", *["--intervals"] * (len(queries) == 1)]
        table = markdown(["Setting", "Value (unless a variant specifies another)"], about)
        return f"{table}\n\nThis command trains the variants:\n\n```bash\n{_lines(command)}\n```"

    def _table(self, given, best_first=False):
        """Rows and columns: heads in the first line, or none for all, then patterns of rows, or none for all."""
        heads, *patterns = [line.strip() for line in given.split("\n")] or [""]
        rows = matching([pattern for pattern in patterns if pattern] or ["*"], self._recorded.rows)
        columns = [head for head in self._recorded.study.columns if head not in LEFT_OUT]
        heads = [head.strip() for head in heads.split(";")] if heads else columns
        cells = {row: [self._recorded.cell(row, head) for head in heads] for row in rows}
        filled = [place for place in range(len(heads)) if any(each[place] for each in cells.values())]
        if best_first:
            rows.sort(key=lambda row: -float(cells[row][0].partition(" ")[0]))
        told = [[_shown(row), *(cells[row][place] or NONE for place in filled)] for row in rows]
        return markdown(["Variant", *(of_column(heads[place]) for place in filled)], told)

    def _sets(self, given):
        """One column of the rows `SET: NAME`, by its head: a row for each name, and a column for each set."""
        named = [row.partition(": ") for row in self._recorded.rows]
        sets, names = (list(dict.fromkeys(each[place] for each in named)) for place in (0, 2))
        rows = [[_shown(name), *(self._recorded.cell(f"{each}: {name}", given) for each in sets)] for name in names]
        return markdown([of_column(given), *sets], rows)

    def _side_by_side(self, given):
        """A column for each source: `COLUMN | HEAD = SOURCE | ...` in the first line, then rows.

        A row is a name that all sources share, or `label | A | ...` with a name or a difference `A minus B` for each
        source, or nothing. Results of one seed are in italics.
        """
        first, *lines = [[cell.strip() for cell in line.split("|")] for line in given.strip().split("\n")]
        heads, sources = zip(*(cell.split(" = ") for cell in first[1:]), strict=True)
        rows = []
        for label, *cells in lines:
            cells = cells or [label] * len(sources)
            told = [self._cell(first[0], *each) for each in zip(cells, sources, strict=True)]
            rows.append([_shown(label), *told])
        return markdown([of_column(first[0]), *heads], rows)

    def _cell(self, head, name, source):
        recorded, name = self._studies.of(name, source)
        if not name:
            return NONE
        mark = "*" if len(recorded.seeds) == 1 else ""
        if " minus " in name:
            return f"{mark}{text_of(difference_of(recorded, name))}{mark}"
        return f"{mark}{cell_of(recorded, head, name)}{mark}"

    def _settings(self, given):
        """A table of the setting that validation chose for each row, with the best and the worst Recall@1."""
        rows = []
        for name, tried in self._recorded.search.tried.items():
            values = [f"{100 * value:.1f}" for _, value in tried]
            chosen = self._recorded.search.setting(name)
            place = next(place for place, (flags, _) in enumerate(tried) if flags is chosen)
            told = " ".join(f"`{flag}`" for flag in chosen if any(flag not in flags for flags, _ in tried))
            rows.append([_shown(name), _escaped(told or "unchanged"), values[place], min(values, key=float)])
        heads = [
            "Variant",
            "Selected settings",
            f"Recall@1 on validation classes{self._length()}",
            "Worst setting tried",
        ]
        told = markdown(heads, rows)
        return f"{wrapped(CHOSEN)}\n\n{told}"

    def _length(self):
        """Returns the length of the runs of the search, for a heading, if it is not the length of all runs."""
        found = [re.fullmatch(r"--(steps|epochs)=(\d+)", flag) for flag in self._recorded.search.searching]
        return "".join(f", runs of {each[2]} {each[1]}" for each in found if each)

    def _forest(self, given):
        """Differences: a title in the first line, then `A minus B | label` or `# heading`."""
        title, *lines = [line.strip() for line in given.strip().split("\n")]
        entries = [self._entry(line) for line in lines]
        alternative = f"{title}: difference in Recall@1, in percentage points, with 95% confidence intervals."
        return self._picture("differences", alternative, forest(alternative, entries))

    def _entry(self, text):
        if text.startswith("# "):
            return text.removeprefix("# "), None
        pair, _, label = text.partition(" | ")
        recorded, pair = self._studies.of(pair)
        return label, difference_of(recorded, pair)

    def _curves(self, given):
        """Learning curves: a title in the first line, then names of rows."""
        title, *patterns = [line.strip() for line in given.strip().split("\n")]
        run_dirs = {of_variant(row): self._recorded.run_dirs(row) for row in matching(patterns, self._recorded.rows)}
        return self._picture("curves", title, learning_curves(title, run_dirs, self._recorded.study.curve))

    def _picture(self, kind, alternative, drawing):
        number = sum(f"_{kind}" in name for name in self.pictures)
        name = f"{self._name}_{kind}{number + 1 if number else ''}.svg"
        self.pictures[name] = drawing
        return f"![{alternative}]({name})\n\n*{alternative}*"


def _flags(record):
    return {flag.partition("=")[0].removeprefix("--"): flag.partition("=")[2] for flag in record["flags"]}


def _test_set(queries, groups):
    """Returns the size of a test set, with the number of groups that intervals draw."""
    drawn = f" in {groups} groups, which intervals draw as a whole" if groups else ""
    return f"{len(queries)} classes{drawn}, {sum(queries):,} images"


def _quoted(argument):
    return f'"{argument}"' if set(argument) & set(" ()'\"") else argument


def _lines(command):
    """Wraps a command into lines of at most 115 characters."""
    lines = [command[0]]
    for argument in command[1:]:
        if len(lines[-1]) + len(argument) > 115:
            lines[-1] += " \\"
            lines.append(f"  {argument}")
        else:
            lines[-1] += f" {argument}"
    return "\n".join(lines)


def _shown(row):
    return _escaped(of_variant(row))


def _escaped(cell):
    return cell.replace("|", "\\|")
