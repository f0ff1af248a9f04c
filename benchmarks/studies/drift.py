"""Measures how often drift is found: `python -m benchmarks.studies.drift emoji=emoji.npz cars=cars.npz`.

The .npz files are from `benchmarks.studies.frozen_features`. Half of the classes are known: half of their images are
the index, and the other half are split at random into a reference and queries. A share of the queries is exchanged for
images of the other classes, which are not in the index. If the same file names exist in all classes, they name sources
of images, such as the vendors of emoji, which are then divided in the same way as classes. Each case is drawn 60 times.
The command writes docs/records/drift.json and draws docs/images/drift.svg from it; without files, it prints the
recorded table.
"""

from pathlib import Path

import numpy as np

from benchmarks.markdown import markdown
from benchmarks.studies.feature_files import record_of
from docs import svg
from tfdml.evaluation.drift import tested
from tfdml.neighbors.nearest import unit_length

DOCS = Path(__file__).parents[2] / "docs"
RECORD, PICTURE = DOCS / "records/drift.json", DOCS / "images/drift.svg"
SHARES, SIZES, TIMES = (0.0, 0.05, 0.1, 0.2, 0.4), (50, 100, 300), 60
ERROR_RATE = 0.05


def measured(embeddings, groups, times=TIMES, seed=0):
    """Returns a list of cases: number of queries, share from other groups, and how often drift was found."""
    random = np.random.default_rng(seed)
    embeddings = unit_length(np.asarray(embeddings, np.float32))
    found = {(size, share): 0 for size in SIZES for share in SHARES}
    for time in range(times):
        different = random.permutation(np.unique(groups))
        known = np.isin(groups, different[: len(different) // 2])
        rows, others = random.permutation(np.flatnonzero(known)), random.permutation(np.flatnonzero(~known))
        index, rows = np.split(rows, [len(rows) // 2])
        nearest = (embeddings @ embeddings[index].T).max(axis=1)
        for size, share in found:
            unknown = round(share * size)
            queries = np.concatenate([rows[: size - unknown], others[:unknown]])
            reference = rows[size : 2 * size]
            both = [each[rows] for each in (embeddings, nearest) for rows in (queries, reference)]
            found[size, share] += tested(*both[:2], both[2:], permutations=99, seed=time)[1] <= ERROR_RATE
    return [{"queries": size, "share": share, "found": count / times} for (size, share), count in found.items()]


def table(record):
    """Returns the Markdown table of a record."""
    rows = [
        [name, f"{size:,}", *(f"{_of(cases, size, share):.0%}" for share in SHARES)]
        for name, cases in record.items()
        for size in SIZES
    ]
    return markdown(["Queries from", "Queries", *(f"{share:.0%} of them" for share in SHARES)], rows)


def _of(cases, size, share):
    return next(case["found"] for case in cases if (case["queries"], case["share"]) == (size, share))


WIDTH, HEIGHT, LEFT, BASE, TOP, GAP = 960, 300, 60, 240, 40, 310
STYLE = """text { font: 14px sans-serif; fill: #24292f; text-anchor: middle } .end { text-anchor: end }
.small { font-size: 12px; fill: #57606a } line { stroke: #8c959f } polyline { fill: none; stroke-width: 2.5 }
.s0 { stroke: #9ecae1 } .s1 { stroke: #4292c6 } .s2 { stroke: #084594 }
.f0 { fill: #6baed6 } .f1 { fill: #4292c6 } .f2 { fill: #084594 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9da7b1 } .s2 { stroke: #c6dbef } .f2 { fill: #c6dbef }
}"""


def drawing(record):
    """Returns the picture of a record as SVG: one chart per dataset, with a line per number of queries."""
    lines = []
    for number, (name, cases) in enumerate(record.items()):
        start = LEFT + number * GAP
        lines.append(f'<text x="{start + 130}" y="24">{name}</text>')
        for share in (0, 0.5, 1):
            y = BASE - share * (BASE - TOP)
            lines.append(f'<line x1="{start}" y1="{y:.0f}" x2="{start + 250}" y2="{y:.0f}" opacity="0.4"/>')
            lines.append(f'<text class="small end" x="{start - 6}" y="{y + 4:.0f}">{share:.0%}</text>')
        for share in SHARES:
            lines.append(f'<text class="small" x="{start + 600 * share:.0f}" y="{BASE + 18}">{share:.0%}</text>')
        lines.append(f'<text class="small" x="{start + 125}" y="{BASE + 40}">of the queries come from there</text>')
        for place, size in enumerate(SIZES):
            points = [(start + 600 * each, BASE - (BASE - TOP) * _of(cases, size, each)) for each in SHARES]
            joined = " ".join(f"{x:.0f},{y:.1f}" for x, y in points)
            lines.append(f'<polyline class="s{place}" points="{joined}"/>')
            x = start + 45 + 78 * place
            lines.append(f'<text class="small f{place}" x="{x}" y="{TOP + 20}">{size} queries</text>')
    label = "How often drift is found, by the share of queries that come from other images, and the number of queries."
    return svg.document(WIDTH, HEIGHT, label, STYLE, lines)


def measured_of_file(name, path):
    """Returns the entries of the record for a file of features: drift to other classes, and to other vendors if any."""
    file, found = np.load(path), {}
    sources = np.array([Path(each).stem for each in file["names"].tolist()])
    if len(np.unique(sources)) < len(np.unique(file["labels"])):
        found[f"{name}, other vendors"] = measured(file["embeddings"], sources)
    return {**found, f"{name}, other classes": measured(file["embeddings"], file["labels"])}


def main():
    record = record_of(__doc__, RECORD, measured_of_file)
    PICTURE.write_text(drawing(record), encoding="utf-8")
    print(table(record))


if __name__ == "__main__":
    main()
