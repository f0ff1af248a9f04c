"""The commands that docs, recipes and docstrings name can be run."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("README.md", "docs/**/*.md", "configs/*.flags", "benchmarks/**/*.py", "tfdml/**/*.py")
COMMAND = re.compile(r"python -m\s+(?:# )?(benchmarks[\w.]*)(?: (\w+)(?![\w/.]))?")


def documented():
    """The modules that are run, and the name that stands behind each; the changelog has older ones."""
    texts = [path.read_text(encoding="utf-8") for place in PLACES for path in ROOT.glob(place)]
    return {found for text in texts for found in COMMAND.findall(text)}


def test_documented_commands_are_there():
    commands = documented()
    assert len({module for module, _ in commands}) >= 30
    for module, name in commands:
        file = ROOT / f"{module.replace('.', '/')}.py"
        assert file.is_file() and '__name__ == "__main__"' in file.read_text(encoding="utf-8"), module
        if module == "benchmarks.study" and name:
            assert (ROOT / f"benchmarks/studies/rows/{name}.py").is_file(), name


def test_every_study_and_every_command_is_documented():
    commands = documented()
    files = [path for path in ROOT.glob("benchmarks/**/*.py") if '"__main__":' in path.read_text(encoding="utf-8")]
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files}
    assert modules <= {module for module, _ in commands}
    studies = {path.stem for path in ROOT.glob("benchmarks/studies/rows/[!_]*.py")}
    assert studies <= {name for module, name in commands if module == "benchmarks.study"}
