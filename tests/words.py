"""Finds turns of phrase in the texts of the project that read as if they had been translated or compressed.

    python -m tests.words README.md docs/search.md tfdml/losses

prints each match in its place. A match is not always wrong ("it takes three minutes" is fine), but many of them make a
text hard to read, so `test_words.py` bounds their number.
"""

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

from tests.rooms import ROOT

NOUNS = (
    "losses|loss|metrics?|samplers?|memory|labels?|levels|weights|values|statistics|batches|rows|tables?|settings|runs?|"
    "recipes?|pages?|pictures?|results?|images?|photos?|features|scores?|intervals?|filters?|texts?|models?|backbones?|"
    "layers?|methods?|optimizers?|index(?:es)?|commands?|names?|arguments|functions?|networks?|folder|files?"
)
OWNERS = (
    "tfdml|Keras|keras-hub|keras-cv|PyTorch|TensorFlow|Qdrant|PostgreSQL|pgvector|Spark|Beam|faiss|LoRA|pairs|classes|"
    "levels|ranks|papers|cars|emoji|toy cars|labels|batches|learners|members|several"
)
COUNTED = (
    "images|photos|rows|values?|steps|epochs|classes|dimensions|labels|pages?|lines?|commands?|groups|bytes|points|queries|"
    "ms|pairs?|negatives|positives|samples|characters|learners|texts|pixels|members|views|centers|files?|proxies|drawings|"
    "units|GiB|MiB|one|several|number|category"
)
PER = (
    "class|image|pair|batch|step|row|level|anchor|side|epoch|block|line|page|device|learner|column|place|file|matrix|"
    "label|query|proxy|dimension|pixel|member|sample|package|group|worker"
)
VERBS = (
    "prints?|writes?|takes?|says?|gives?|keeps?|returns?|reads?|finds?|has|have|is|are|does|makes?|needs?|resizes|pads|"
    "puts|draws?|goes|ends?|names?|leaves|lists|loads?|shows?|adds?|checks?|pushes|pulls|compares?|trains?|tests?|serves?|"
    "joins?|sends?|sums?"
)
FINITE = (
    "is|are|has|have|takes?|wins?|won|loses?|teach(?:es)?|learns?|ends?|begins?|gives?|reach(?:es)?|needs?|makes?|costs?|"
    "does|do|get|gets|says?|means?|counts?|selects?|trains?|keeps?|comes?|helps?|holds?|goes|was|were|can|may|cannot|"
    "stands?|adds?|shows?|finds?|leaves?|chooses?|stays?|remains?"
)
FRONT = "With|Without|On|In|For|From|At|By|Of|After|Before|Under|Beside|Among|Within"
# What to write instead, and what it replaces.
PATTERNS = {
    "accept, use, need, not take": r"\btakes?\b",
    "if or when, not where": (
        r"\b[Ww]here (?:it|they|there|these|this|that|one|a|an|the|no|all|none|both|classes|images|something|nothing|"
        r"sets|training|steps|many|more|some|two|most|nearly)\b"
    ),
    # "Cannot tell" is a verdict in docs/evidence.
    "show or specify, not say or tell": r"\b(?:says?|(?<!annot )tells?|told)\b",
    "with or which has, not whose": r"\bwhose\b",
    "next to, instead of, again, equally, except for": r"\bbeside\b|\bin place of\b|\banew\b|\balike\b|\bbut for\b",
    "the noun again, not that of": r"\b(?:that|those) of\b",
    "If `None`, ..., not None: ...": r"\b(?:[Ee]mpty|None|-1|0|1|True|False)(?:`)?: (?!\d)",
    "a tfdml loss, your own loss": (
        rf"(?<!number )\b(?:{NOUNS}) of (?:{OWNERS})\b(?! Similarity| Addons| Datasets|')"
        r"|\bof (?:your|its|his|their|one's|my|our) own\b"
    ),
    "a comma after a phrase in front": rf"(?:^|(?<=[.;:] ))(?:{FRONT}) (?:[\w`'%()./=*-]+ ){{1,7}}?(?:{FINITE})\b",
    "no comma before and with a verb": rf"\w, and (?:{VERBS})\b",
    "pass or set, not give": (
        r"\b[Gg]ive (?:a|an|the|another|--|one|both|it|each|more|images|fewer|mean|weights|scores|`|files|different|"
        r"other|up|paths|unscaled|embeddings|image)|\b(?:is|are|be|was|were|not|none) given\b"
    ),
    "for, not of, in front": r"(?:^|(?<=[.;:] )|\| |- )Of (?=[a-z\d`'])(?!course)",
    "start, not begin": r"\b(?:begins?|began|begun|beginning)\b",
    "is not a, not is no": (
        r"\b(?:is|are|was|were|be) no (?!longer|more\b|less|other|such|larger|fewer|nearer|smaller|higher|better|worse|"
        r"need|way|reason|point|doubt|gain)"
    ),
    "per class, not a class": rf"\b(?:{COUNTED}|(?<!as )(?<!is )\d[\d,.]*) an? (?:{PER})\b",
    "resume, not go on": r"\b(?:goes|go|going|went) on\b",
    "improve, not win": r"\b(?:won|wins?|winning)\b",
    "also, not , too": r", too\b",
    "95%, not 95 %": r"\d %",
    "that many, must": r"\bso (?:many|often)\b|\bshall\b",
    "30%, not three tenths": (
        r"\b(?:a|an|one|two|three|four|eight|nine|seven|half a) (?:third|quarter|fifth|sixth|eighth|tenth|twelfth|"
        r"twentieth|sixteenth|thousandth|hundredth)s?\b"
    ),
    "is, not stands or lies": r"\b(?:stands?|stood|lies|lie)\b(?! for\b)(?! in for)",
    "learned, license, gray, color": r"\b(?:learnt|licence|grey|colour|neighbour\w*|labelled)\b",
}


def paragraphs(text):
    """Returns the paragraphs, list items and table rows of a page, each on one line, without code and link targets."""
    text = re.sub(r"```.*?```|<!--.*?-->", " ", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return [" ".join(each.split()) for each in re.split(r"\n\s*\n|\n(?=[-|#*] ?)", text)]


def literal(node):
    """Returns the text of a string in code, with `{...}` for values; None for other expressions."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(each.value if isinstance(each, ast.Constant) else "{...}" for each in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = literal(node.left), literal(node.right)
        return None if sides == (None, None) else "".join(side or "{...}" for side in sides)
    if isinstance(node, ast.IfExp):
        return " / ".join(filter(None, (literal(node.body), literal(node.orelse)))) or None
    return None


def docstrings(tree):
    """Returns the docstrings of a file's modules, classes and functions."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, documented)]


def texts_of_source(source):
    """Returns the parts of docstrings, the messages, the help of flags, and the comments of a Python file."""
    tree, found = ast.parse(source), []
    for text in docstrings(tree):
        parts = re.split(r"\n\s*\n|\n(?=\s*(?:Args|Returns|Call arguments|Raises|Example))", text)
        found += [" ".join(part.split()) for part in parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            found += filter(None, map(literal, node.exc.args))
        elif isinstance(node, ast.Call):
            name, values = ast.unparse(node.func), [*node.args, *(keyword.value for keyword in node.keywords)]
            if name in ("print", "flag") or "DEFINE_" in name or name.endswith((".warn", ".warning", ".info")):
                found += [text for text in map(literal, values) if text and " " in text]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return found + [each.string.lstrip("# ") for each in tokens if each.type == tokenize.COMMENT]


def texts_of(path):
    """Returns the texts of a page or of a Python file, each on one line."""
    content = path.read_text(encoding="utf-8")
    return texts_of_source(content) if path.suffix == ".py" else paragraphs(content)


def matches(text):
    """Returns `(advice, match)` for each pattern that a text has."""
    return [(advice, match) for advice, pattern in PATTERNS.items() for match in re.finditer(pattern, text)]


def main(places):
    for place in map(Path, places):
        files = (
            [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.suffix in (".py", ".md"))
        )
        for path in files:
            for text in texts_of(path):
                for advice, match in matches(text):
                    around = text[max(match.start() - 50, 0) : match.end() + 50]
                    print(f"{path}: {advice}: ...{around}...")


if __name__ == "__main__":
    main(sys.argv[1:] or [ROOT / "README.md", ROOT / "docs", ROOT / "tfdml", ROOT / "pipelines"])
