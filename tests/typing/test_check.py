"""The check of types finds the lines that it should, in what a checker prints, and writes uses of every part."""

import json
from typing import Annotated, Any, Literal

from tests.typing import check
from tfdml import losses

PAGE = """# Title

```python
import tfdml
```

Text, and a command:

```
tfdml.load(1)
```

```python
for path in paths:
    print(path)
```
"""


def printed(*errors):
    diagnostics = [
        {"file": file, "severity": severity, "message": message, "rule": "reportCallIssue", "range": {"start": place}}
        for file, severity, message, place in errors
    ]
    return json.dumps({"generalDiagnostics": diagnostics})


def test_examples_keep_their_lines():
    lines = check.python_of(PAGE).splitlines()
    assert len(lines) == len(PAGE.splitlines())
    assert {number: line for number, line in enumerate(lines, start=1) if line} == {
        4: "import tfdml",
        14: "for path in paths:",
        15: "    print(path)",
    }


def test_a_page_is_given_its_names_in_its_first_line():
    lines = check.python_of(PAGE, "labels, paths").splitlines()
    assert lines[0] == "from tests.typing.given import labels, paths" and lines[3] == "import tfdml"


def test_pages_with_examples_are_found():
    assert {"README.md", "docs/keras.md"} <= set(check.pages()) and "docs/glossary.md" not in check.pages()
    assert set(check.GIVEN) <= set(check.pages())


def test_no_module_has_the_name_of_a_page(tmp_path):
    written = check.write_examples(tmp_path)
    assert set(written.values()) == set(check.pages()) and not (tmp_path / "keras.py").exists()


def test_marks_stand_at_the_end_of_a_line():
    texts = {"a.py": "f(1)\nf('x')  # marked\n", "b.py": "# marked lines follow\nf(2)  # marked  \n"}
    assert check.marked_lines(texts) == {("a.py", 2), ("b.py", 2)}


def test_only_errors_count_and_the_first_of_a_line():
    output = printed(
        ("a.py", "error", "first", {"line": 3}),
        ("a.py", "error", "second", {"line": 3}),
        ("a.py", "warning", "no stubs", {"line": 8}),
    )
    assert check.errors_of(output) == {("a.py", 4): "first (reportCallIssue)"}


def test_errors_without_a_mark_and_marks_without_an_error_are_told():
    errors = {("docs/keras.md", 41): "No parameter named margin", ("a.py", 2): "expected"}
    assert check.differences(errors, {("a.py", 2), ("a.py", 9)}) == [
        "a.py:9: no error, but the line ends in '# marked'",
        "docs/keras.md:41: error: No parameter named margin",
    ]
    assert check.differences({("a.py", 2): "expected"}, {("a.py", 2)}) == []


def test_every_part_has_right_and_wrong_uses():
    uses = {name: check.written_uses(part) for name, part in check.parts().items()}
    assert len(uses) > 250 and {"tfdml.losses.triplet.Triplet", "tfdml.callbacks.clusters.Recluster"} <= set(uses)
    for name, lines in uses.items():
        assert {line.endswith(check.MARK) for line in lines} == {True, False}, name


def crop(path, /, size: Annotated[int, "pixels"], form: Literal["square"] | None = None, *, other: Any = 2, far=1e999):
    pass


def test_uses_of_a_function():
    crop.__qualname__ = "crop"
    assert check.written_uses(crop) == [
        "crop(anything, size=anything)",
        "crop(anything, size=anything, form=None, other=2)",
        "crop(anything, anything, None)",
        "crop()  # marked",
        "crop(anything, size=anything, nonsense=1)  # marked",
        "crop(anything, size=object())  # marked",
        'crop(anything, size=anything, form="sometimes")  # marked',
    ]


def test_uses_of_a_class_with_fields():
    assert check.written_uses(losses.FastAP) == [
        "FastAP()",
        "FastAP(bins=10, mining='all', mean='anchors', reduction='sum_over_batch_size', name=None, dtype='float32')",
        "FastAP(10)",
        "FastAP(nonsense=1)  # marked",
        "FastAP(bins=object())  # marked",
        "FastAP(mining=object())  # marked",
        'FastAP(mean="sometimes")  # marked',
        'FastAP(reduction="sometimes")  # marked',
        "FastAP(name=object())  # marked",
    ]


def test_lines_that_pass_have_no_mark():
    assert check.marked_lines({"using_pass.py": (check.HERE / "using_pass.py").read_text(encoding="utf-8")}) == set()
