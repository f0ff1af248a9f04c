"""Writes docs/evidence/anchors.md, our results next to published scores: `python -m benchmarks.pages.anchors`.

The numbers come from docs/records/market1501.jsonl and lfw.jsonl, and the text from the template anchors.md.
"""

import re

from benchmarks.markdown import markdown
from benchmarks.pages.recorded import ROOT, read_once
from benchmarks.pages.template import wrapped
from benchmarks.studies.market1501 import difference_of
from tfdml.console import scores

PAGE, TEMPLATE = ROOT / "docs/evidence/anchors.md", ROOT / "benchmarks/pages/templates/anchors.md"
WRITTEN = f"<!-- This page is written by `python -m benchmarks.pages.anchors` from {TEMPLATE.relative_to(ROOT)}. -->"
MARKER = re.compile(r"\{([^{}]+)\}")
NONE = "–"
# The published scores, in percent.
ON_MARKET = {"recall_at_1": 85.6, "map": 67.3}
ON_LFW = 99.38
# Runs on Market-1501, with their display names and image sizes. Rows without a record are omitted.
MARKET_ROWS = {
    "frozen-features": ("Pretrained features, no training", "256 × 128"),
    "frozen-lda": ("Linear discriminants of these features (`lda`)", "256 × 128"),
    "frozen-wccn": ("Whitening of these features within persons (`wccn`)", "256 × 128"),
    "softmax-small": ("Softmax, first stage", "128 × 64"),
    "softmax-large": ("Softmax", "256 × 128"),
    "recommended-small": ("Recommended loss and batches, first stage", "128 × 64"),
    "recommended-large": ("Recommended loss and batches", "256 × 128"),
}
MARKET_HEADS = ["Model", "Image size", "Recall@1 (95% CI)", "mAP", "Recall@1, re-ranked", "mAP, re-ranked"]
TORCHREID = ["Torchreid, softmax (published)", "256 × 128", *map(str, ON_MARKET.values()), NONE, NONE]
LFW_ROWS = {
    "dlib, aligned": "Network of dlib, faces aligned by 51 landmarks",
    "dlib, aligned by five points": "Network of dlib, faces aligned by five points",
    "dlib, fixed crop": "Network of dlib, fixed crop",
    "ImageNet features, aligned": "ImageNet features of MobileNetV2, aligned faces",
    "pixels, aligned": "Pixels, aligned faces",
}
LFW_HEADS = ["Embeddings", "Accuracy (95% CI)", "TAR at a FAR of 0.01", "TAR at a FAR of 0.001"]


def verdict(interval, published):
    """Returns in words how the 95% confidence interval of a score, in percent, compares with a published score."""
    low, high = interval
    if low > published:
        return "exceeds the published score"
    return "reaches the published score" if high >= published else "is below the published score"


class Anchors:
    """The tables and numbers of the page.

    Args:
        market: Records of Market-1501, by the names of their runs.
        lfw: Records of LFW, by the names of their rows.
    """

    def __init__(self, market, lfw):
        self._market, self._lfw = market, lfw

    def market(self):
        """Returns the table of Market-1501, with the published row first."""
        rows = [TORCHREID]
        for run, (name, size) in MARKET_ROWS.items():
            if run in self._market:
                reranked = self._market.get(f"{run}-reranked", {"result": {}})["result"]
                again = [scores.bare(metric, reranked[metric]) if reranked else NONE for metric in ON_MARKET]
                recall = self._with_interval(self._scores(run)["recall_at_1"], self._interval(run))
                rows.append([name, size, recall, scores.bare("map", self._scores(run)["map"]), *again])
        return markdown(MARKET_HEADS, rows)

    def lfw(self):
        """Returns the table of LFW, with the published row first."""
        rows = [["dlib (published)", f"{ON_LFW:.2f}", NONE, NONE]]
        for run, name in LFW_ROWS.items():
            result = self._lfw[run]["result"]
            accuracy = self._with_interval(result["accuracy"], result["interval"], 2)
            rates = (f"{100 * result[f'tar_at_far_{rate}']:.1f}" for rate in ("0.01", "0.001"))
            rows.append([name, accuracy, *rates])
        return markdown(LFW_HEADS, rows)

    def number(self, text):
        """Returns what a marker of the template stands for.

        Args:
            text: `market RUN: METRIC`, `market RUN: METRIC of learner NUMBER`, `lfw ROW: METRIC`, `verdict of RUN`,
                `verdict of LFW` or `difference of METRIC after STAGE`.
        """
        if text == "verdict of LFW":
            low, high = self._lfw["dlib, aligned"]["result"]["interval"]
            return verdict((100 * low, 100 * high), ON_LFW)
        if text.startswith("verdict of "):
            low, high = self._interval(text.removeprefix("verdict of "))
            return verdict((100 * low, 100 * high), ON_MARKET["recall_at_1"])
        if text.startswith("difference of "):
            metric, _, stage = text.removeprefix("difference of ").partition(" after ")
            found = self._market[difference_of(stage)]["result"]["metrics"][metric]
            ends = scores.interval(metric, found["interval"], "+")
            return f"{scores.bare(metric, found['difference'], '+')} ({ends})"
        kind, _, rest = text.partition(" ")
        run, _, metric = rest.partition(": ")
        if kind == "market":
            metric, _, learner = metric.partition(" of learner ")
            result = self._market[run]["result"]
            found = result["learners"]["alone"][int(learner)] if learner else result["metrics"]
            return scores.bare(metric, found[metric])
        if kind == "lfw":
            return f"{100 * self._lfw[run]['result'][metric]:.2f}"
        raise ValueError(f"Expected a marker such as {{market RUN: METRIC}}. Received: {{{text}}}.")

    def _scores(self, run):
        return self._market[run]["result"]["metrics"]

    def _interval(self, run):
        """Returns the interval of Recall@1 of the last model, which is the best one unless nothing was trained."""
        result = self._market[run]["result"]
        if result["best"]["recall_at_1"] != result["metrics"]["recall_at_1"]:
            raise ValueError(f"{run} has an interval of another model than the last one.")
        return result["intervals"]["recall_at_1"]

    @staticmethod
    def _with_interval(value, interval, digits=1):
        low, high = (f"{100 * each:.{digits}f}" for each in interval)
        return f"{100 * value:.{digits}f} ({low} to {high})"


def page(market, lfw):
    """Returns the text of the page from records; see `Anchors`."""
    anchors = Anchors(market, lfw)
    blocks = {"market table": anchors.market, "lfw table": anchors.lfw}

    def paragraph(text):
        marker = MARKER.fullmatch(text)
        if marker and marker[1] in blocks:
            return blocks[marker[1]]()
        filled = MARKER.sub(lambda found: anchors.number(" ".join(found[1].split())), text)
        return "\n".join(wrapped(item) for item in re.split(r"\n(?=- )", filled))

    template = TEMPLATE.read_text(encoding="utf-8").strip()
    return "\n\n".join([WRITTEN, *(paragraph(each) for each in re.split(r"\n\s*\n", template))]) + "\n"


def recorded_page():
    """Returns the text of the page from docs/records."""
    return page(*(read_once(ROOT / f"docs/records/{name}.jsonl") for name in ("market1501", "lfw")))


def main():
    PAGE.write_text(recorded_page(), encoding="utf-8")
    print(f"Wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
