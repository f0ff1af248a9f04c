"""Blocks of pages: what was run, tables, forest plots and learning curves."""

from collections import Counter

from benchmarks.markdown import markdown
from benchmarks.pages.claims import difference_of
from benchmarks.pages.forest import forest
from benchmarks.pages.learning_curves import learning_curves
from benchmarks.pages.template import matching

# Two numbers in a cell are read by nobody.
LEFT_OUT = ("negatives within, between",)
# Flags that say what was run, and what the table calls them.
ABOUT = {
    "dataset": "its spec",
    "image_size": "pixels a side",
    "backbone": "network",
    "initial_weights": "its first weights",
    "method": "method",
    "embedding_size": "dimensions",
    "loss": "loss",
    "sampler": "batches",
    "optimizer": "optimizer",
    "schedule": "learning rate later",
    "steps": "steps",
    "epochs": "epochs",
}


# Where the pages of data sets are, by the names of records.
SETS = {
    "cars": "half of [Cars196](../cars.md)",
    "emoji": "the [emoji set](../emoji.md)",
    "omniglot": "the [Omniglot set](../omniglot.md)",
    "toycars": "the built-in [toy cars](../data.md)",
    "fine_tuning": "the sets of [emoji](../emoji.md), [cars](../cars.md) and [Omniglot](../omniglot.md)",
}
# Of a study that has one, in front of its table.
ONE_SEED = (
    "**One seed.** Intervals are over test classes alone: how much other seeds would differ is not in them. So take a\n"
    "difference whose interval ends within a point of 0 as not seen, also where it is called significant."
)
# What does nothing.
UNTOLD = ("", "0", "constant")


class Blocks:
    """The blocks of a page, and the pictures that they leave beside it.

    Args:
        name: of the page, which names of pictures begin with.
        recorded: the `Recorded` study.
    """

    def __init__(self, name, recorded):
        self._name, self._recorded = name, recorded
        self.pictures = {}
        self.by_name = {
            "setup": self._setup,
            "table": self._table,
            "sets": self._sets,
            "ranking": lambda given: self._table(given, best_first=True),
            "settings": self._settings,
            "forest": self._forest,
            "curves": self._curves,
        }

    def _setup(self, given):
        """A table of the flags that most rows share, of seeds and settings, and the command."""
        source, rows = self._recorded.source, self._recorded.rows
        records = {name: self._recorded.records(name) for name in rows}
        flags = {name: _flags(found[0]) for name, found in records.items()}
        common = {flag: Counter(each[flag] for each in flags.values()).most_common(1)[0] for flag in ABOUT}
        about = [
            (told, f"`{common[flag][0]}`")
            for flag, told in ABOUT.items()
            if common[flag][0] not in UNTOLD and 2 * common[flag][1] > len(rows)
        ]
        about.insert(0, ("dataset", SETS.get(source.records, SETS["toycars"])))
        # Of several sets the queries of each.
        queries = list(dict.fromkeys(tuple(found[0]["measured"]["queries"]) for found in records.values()))
        about.append(("test", "; ".join(f"{len(each)} classes, {sum(each):,} images" for each in queries)))
        about.append(("seeds", ", ".join(map(str, source.seeds))))
        if self._recorded.search:
            count = len(next(iter(self._recorded.search.tried.values())))
            more = "".join(f", `{flag}`" for flag in self._recorded.search.searching)
            about.append(("settings of a row", f"validation chose among {count}, with seed 0{more}"))
        seconds = sum(record["result"]["seconds"] for found in records.values() for record in found)
        about.append(("time of these runs", f"{seconds / 3600:.1f} hours"))
        about.append(("records", f"[{source.records}.jsonl](../records/{source.records}.jsonl)"))
        command = ["python -m benchmarks.study", source.study, *(_quoted(flag) for flag in source.flags)]
        if source.seeds != (0, 1, 2):
            command.append(f"--seeds={','.join(map(str, source.seeds))}")
        command += [f"--row={_quoted(row)}" for row in source.rows]
        command += [f"--records=docs/records/{source.records}.jsonl", *["--intervals"] * (len(queries) == 1)]
        table = markdown(["what was run", "in rows that name no other"], about)
        told = f"{ONE_SEED}\n\n" if len(source.seeds) == 1 else ""
        return f"{told}{table}\n\n```\n{_lines(command)}\n```"

    def _table(self, given, best_first=False):
        """Rows and columns: heads in the first line, or none for all, then names of rows, or none for all."""
        heads, *patterns = [line.strip() for line in given.split("\n")] or [""]
        rows = matching([pattern for pattern in patterns if pattern] or ["*"], self._recorded.rows)
        columns = [head for head in self._recorded.study.columns if head not in LEFT_OUT]
        heads = [head.strip() for head in heads.split(";")] if heads else columns
        cells = {row: [self._recorded.cell(row, head) for head in heads] for row in rows}
        filled = [place for place in range(len(heads)) if any(each[place] for each in cells.values())]
        if best_first:
            rows.sort(key=lambda row: -float(cells[row][0].partition(" ")[0]))
        told = [[_escaped(row), *(cells[row][place] for place in filled)] for row in rows]
        return markdown(["", *(heads[place] for place in filled)], told)

    def _sets(self, given):
        """A column, by its head, of rows `SET: NAME`: a row for each name, a column for each set."""
        named = [row.partition(": ") for row in self._recorded.rows]
        sets, names = (list(dict.fromkeys(each[place] for each in named)) for place in (0, 2))
        rows = [[_escaped(name), *(self._recorded.cell(f"{each}: {name}", given) for each in sets)] for name in names]
        return markdown([given, *sets], rows)

    def _settings(self, given):
        """A table of the setting that validation chose for each row, with Recall@1 of it and of the worst one."""
        rows = []
        for name, tried in self._recorded.search.tried.items():
            values = [f"{100 * value:.1f}" for _, value in tried]
            chosen = self._recorded.search.setting(name)
            place = next(place for place, (flags, _) in enumerate(tried) if flags is chosen)
            told = " ".join(f"`{flag}`" for flag in chosen if any(flag not in flags for flags, _ in tried))
            rows.append([_escaped(name), _escaped(told or "as it is"), values[place], min(values, key=float)])
        told = markdown(["", "chosen", "Recall@1 on validation classes", "the worst setting"], rows)
        return f"What validation chose. Rows that are not named have the setting of the row that they change.\n\n{told}"

    def _forest(self, given):
        """Differences: a title in the first line, then `A minus B | label`, `* minus B`, or `# heading`."""
        title, *lines = [line.strip() for line in given.strip().split("\n")]
        entries = [entry for line in lines for entry in self._entries(line)]
        seeds = ", one seed" if len(self._recorded.seeds) == 1 else ""
        alternative = f"{title}: points of Recall@1 with 95 % intervals{seeds}."
        return self._picture("differences", alternative, forest(alternative, entries))

    def _entries(self, text):
        if text.startswith("# "):
            return [(text.removeprefix("# "), None)]
        pair, _, label = text.partition(" | ")
        first, minus, second = pair.partition(" minus ")
        if label or "*" not in first:
            return [(label or pair, difference_of(self._recorded, pair))]
        names = [name for name in matching([first], self._recorded.rows) if name != second]
        found = {name: difference_of(self._recorded, f"{name}{minus}{second}") for name in names}
        return sorted(found.items(), key=lambda entry: -entry[1].mean)

    def _curves(self, given):
        """Learning curves: a title in the first line, then names of rows."""
        title, *patterns = [line.strip() for line in given.strip().split("\n")]
        run_dirs = {row: self._recorded.run_dirs(row) for row in matching(patterns, self._recorded.rows)}
        return self._picture("curves", title, learning_curves(title, run_dirs, self._recorded.study.curve))

    def _picture(self, kind, alternative, drawing):
        number = sum(f"_{kind}" in name for name in self.pictures)
        name = f"{self._name}_{kind}{number + 1 if number else ''}.svg"
        self.pictures[name] = drawing
        return f"![{alternative}]({name})\n\n*{alternative}*"


def _flags(record):
    return {flag.partition("=")[0].removeprefix("--"): flag.partition("=")[2] for flag in record["flags"]}


def _quoted(argument):
    return f'"{argument}"' if set(argument) & set(" ()'\"") else argument


def _lines(command):
    """A command on several lines, none of which is too long."""
    lines = [command[0]]
    for argument in command[1:]:
        if len(lines[-1]) + len(argument) > 115:
            lines[-1] += " \\"
            lines.append(f"  {argument}")
        else:
            lines[-1] += f" {argument}"
    return "\n".join(lines)


def _escaped(cell):
    return cell.replace("|", "\\|")
