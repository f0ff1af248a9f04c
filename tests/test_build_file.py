"""Keeps BUILD complete and true. BUILD is Python syntax, so it is run here with rules that only take notes."""

from types import SimpleNamespace

import pytest

from tests.rooms import ROOT, TABLE

PACKAGES = ("tfdml", "pipelines", "benchmarks")
RULES = ("py_library", "py_binary", "py_test", "genrule", "filegroup")


def files(pattern):
    found = ROOT.glob(pattern)
    if pattern.startswith("**/"):
        # Hidden folders have ten thousands of files that are not the project's.
        tops = [top for top in ROOT.iterdir() if top.is_dir() and not top.name.startswith(".")]
        found = [*ROOT.glob(pattern[3:]), *(path for top in tops for path in top.glob(pattern))]
    return {path.relative_to(ROOT).as_posix() for path in found if path.is_file()}


def glob(include, exclude=()):
    return sorted(set().union(*map(files, include)) - set().union(*map(files, exclude)))


@pytest.fixture(scope="module")
def targets():
    noted = {}

    def rule(kind):
        def note(name, **attributes):
            assert name not in noted, f"two targets are named {name}"
            noted[name] = SimpleNamespace(
                kind=kind, srcs=attributes.get("srcs", []), deps=attributes.get("deps", []), main=attributes.get("main")
            )

        return note

    names = {kind: rule(kind) for kind in RULES}
    names |= {name: lambda *_, **__: None for name in ("package", "licenses", "exports_files")}
    names["load"] = lambda _, *loaded: names.update({name: TABLE[name] for name in loaded})
    names["glob"] = glob
    exec(compile((ROOT / "BUILD").read_text(), "BUILD", "exec"), names)
    return noted


def of_kind(targets, kind):
    return {name: target for name, target in targets.items() if target.kind == kind}


def command_lines():
    """Modules that do something when they are run."""
    scripts = glob(["tfdml/*.py", "pipelines/*.py", "benchmarks/**/*.py", "docs/*.py"])
    return {file for file in scripts if '__name__ == "__main__"' in (ROOT / file).read_text()}


def test_every_module_belongs_to_one_target(targets):
    libraries = [file for target in of_kind(targets, "py_library").values() for file in target.srcs]
    assert len(libraries) == len(set(libraries))
    modules = {file for package in PACKAGES for file in files(f"{package}/**/*.py")}
    assert not modules - {*libraries, *(target.main for target in of_kind(targets, "py_binary").values())}


def test_every_command_line_is_a_binary(targets):
    assert command_lines()
    assert command_lines() <= {target.main for target in of_kind(targets, "py_binary").values()}


def test_every_test_file_is_a_test(targets):
    tests = of_kind(targets, "py_test")
    assert files("tests/**/test_*.py") <= {file for target in tests.values() for file in target.srcs}


def test_every_listed_file_exists(targets):
    for name, target in targets.items():
        assert target.srcs or target.kind == "genrule", name
        for file in target.srcs:
            assert file.startswith(":") or (ROOT / file).is_file(), f"{name}: {file}"


def test_every_dependency_exists(targets):
    for name, target in targets.items():
        for dependency in target.deps:
            assert dependency.startswith(":") and dependency[1:] in targets, f"{name}: {dependency}"
