"""Keeps BUILD complete and true. BUILD is Python syntax, so it is run here with rules that only take notes."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tfdml", "pipelines")
RULES = ("py_library", "py_binary", "py_test", "genrule", "filegroup")


def files(pattern):
    return {path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern) if path.is_file()}


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
    exec(compile((ROOT / "BUILD").read_text(), "BUILD", "exec"), {"glob": glob, **names})
    return noted


def of_kind(targets, kind):
    return {name: target for name, target in targets.items() if target.kind == kind}


def command_lines():
    """Modules that do something when they are run."""
    scripts = files("tfdml/*.py") | files("pipelines/*.py") | files("benchmarks/**/*.py") | files("docs/*.py")
    return {file for file in scripts if '__name__ == "__main__"' in (ROOT / file).read_text()}


def owners(targets):
    """File: the library or command that it belongs to."""
    owner = {}
    for kind in ("py_library", "py_binary"):
        for name, target in of_kind(targets, kind).items():
            for file in target.srcs:
                assert file not in owner, f"{file} belongs to {owner[file]} and to {name}"
                owner[file] = name
    return owner


def imported(file):
    """Our own files that a module imports, wherever the import stands."""
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            # What is imported from a package is a module of it, or something that its __init__ holds.
            names = [name if path_of(name := f"{node.module}.{alias.name}") else node.module for alias in node.names]
        else:
            continue
        yield from (path_of(name) for name in names if name.split(".")[0] in PACKAGES)


def path_of(name):
    path = name.replace(".", "/")
    return next((file for file in (f"{path}.py", f"{path}/__init__.py") if (ROOT / file).is_file()), None)


def test_every_package_is_a_library(targets):
    packages = {Path(file).parent.as_posix() for package in PACKAGES for file in files(f"{package}/**/__init__.py")}
    assert packages
    assert not packages - of_kind(targets, "py_library").keys()


def test_every_module_belongs_to_one_target(targets):
    modules = {file for package in PACKAGES for file in files(f"{package}/**/*.py")}
    assert not modules - owners(targets).keys()


def test_every_command_line_is_a_binary(targets):
    binaries = of_kind(targets, "py_binary")
    assert command_lines()
    assert {target.main for target in binaries.values()} == command_lines()


def test_every_test_file_is_a_test(targets):
    tests = of_kind(targets, "py_test")
    assert files("tests/**/test_*.py") <= {file for target in tests.values() for file in target.srcs}


def test_every_listed_file_exists(targets):
    for name, target in targets.items():
        for file in target.srcs:
            assert file.startswith(":") or (ROOT / file).is_file(), f"{name}: {file}"


def test_every_dependency_exists(targets):
    for name, target in targets.items():
        for dependency in target.deps:
            assert dependency.startswith(":") and dependency[1:] in targets, f"{name}: {dependency}"


def test_dependencies_follow_the_imports(targets):
    owner = owners(targets)
    for file, name in owner.items():
        allowed = {name} | {dependency[1:] for dependency in targets[name].deps}
        for other in imported(file):
            assert owner[other] in allowed, f"{file} imports {other}, but {name} does not depend on {owner[other]}"
