"""Creates the pages of the reference, one per package, from the sources, without importing TensorFlow or tfdml."""

import ast
import itertools
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = "reference"
# The packages in the order of the navigation.
PACKAGES = (
    "tfdml",
    "tfdml.losses",
    "tfdml.losses.addons",
    "tfdml.methods",
    "tfdml.methods.memories",
    "tfdml.backbones",
    "tfdml.texts",
    "tfdml.heads",
    "tfdml.layers",
    "tfdml.callbacks",
    "tfdml.evaluation",
    "tfdml.evaluation.protocols",
    "tfdml.evaluation.metrics",
    "tfdml.evaluation.indexes",
    "tfdml.evaluation.rerankings",
    "tfdml.functional",
    "tfdml.optimizers",
    "tfdml.optimizers.schedules",
    "tfdml.data",
    "tfdml.registry",
    "tfdml.reporting",
    "tfdml.serving",
    "pipelines.preprocessing",
    "pipelines.preprocessor",
    "pipelines.datasets",
    "pipelines.sampling",
    "pipelines.transforms",
)


def navigation():
    """Returns the part of the navigation with the page of each package."""
    return [{package: page_of(package)} for package in PACKAGES]


def page_of(package):
    """Returns the page of a package, relative to the pages."""
    return f"{FOLDER}/{package}.md"


def pages():
    """Returns `{page: text}`, in which mkdocstrings replaces each `:::`."""
    return {page_of(package): page(package) for package in PACKAGES}


def page(package):
    """Returns the text of a package's page: its docstring, links to subpackages, and its descriptions."""
    names = public_names(package)
    linked = {name: page for name in names if (page := _page_elsewhere(package, name))}
    links = [f"- [`{name}`]({pathlib.PurePosixPath(page).name})" for name, page in sorted(linked.items())]
    here = [name for name in names if name not in linked and name != "__version__"]
    described = [_section(package, *each) for each in itertools.groupby(here, lambda name: name.rpartition(".")[0])]
    about = ast.get_docstring(_tree(package)) or ""
    return "\n\n".join([f"# {package}", about, *["\n".join(links)] * bool(links), *described]) + "\n"


def _section(package, module, names):
    """Returns mkdocstrings directives, below a heading for each module of a package without its own `__all__`."""
    if not module:
        return "\n\n".join(f"::: {_path(package, name)}" for name in names)
    below = [f"::: {package}.{name}\n    options:\n      heading_level: 3" for name in names]
    return "\n\n".join([f"## {package}.{module}", *below])


def public_names(package):
    """Returns the public names of a package or module from its sources.

    They come from `__all__` or from the stub. Without these, they are the functions and classes of the module or of the
    modules in the package, for example `pairs.positive_pairs`.
    """
    stub = _file(package).with_suffix(".pyi")
    if stub.exists():
        return sorted(name for name in _imports(stub) if name != "_")
    stated = _stated(_tree(package))
    if stated is not None:
        return stated
    if _file(package).name != "__init__.py":
        return _defined(_tree(package))
    modules = sorted(path.stem for path in _file(package).parent.glob("*.py") if path.stem != "__init__")
    return [f"{module}.{name}" for module in modules for name in _defined(_tree(f"{package}.{module}"))]


def _path(package, name):
    """Returns the full name, including the module if it has the same name, because that would hide the object."""
    same = _file(package).with_name(f"{name}.py")
    return (
        f"{package}.{name}.{name}"
        if same.exists() and name in _defined(_tree(f"{package}.{name}"))
        else f"{package}.{name}"
    )


def _page_elsewhere(package, name):
    """Returns the page that describes an imported name, or `None` if this page describes it."""
    if f"{package}.{name}" in PACKAGES:
        return page_of(f"{package}.{name}")
    home = _imports(_file(package).with_suffix(".pyi")).get(name) if package == "tfdml" else None
    if home in PACKAGES:
        return page_of(home)
    near = [other for other in PACKAGES[1:] if home and home.startswith(f"{other}.") and name in public_names(other)]
    return page_of(near[0]) if near else None


def _stated(tree):
    """Returns the value of `__all__` if it is a literal."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            return ast.literal_eval(node.value)
    return None


def _defined(tree):
    kinds = ast.FunctionDef | ast.ClassDef
    return [node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]


def _imports(file):
    """Returns a dictionary from the imported names of a file to their full names."""
    if not file.exists():
        return {}
    nodes = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: f"{node.module}.{alias.name}" for node in nodes for alias in node.names}


def _tree(module):
    return ast.parse(_file(module).read_text(encoding="utf-8"))


def _file(module):
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
