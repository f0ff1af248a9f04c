"""Keeps the directions of design.md by reading the imports of every file."""

import ast
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(path.relative_to(ROOT) for room in ("tfdml", "pipelines") for path in (ROOT / room).rglob("*.py"))
MOST_LINES = 250

CHECKED = "tfdml.arguments tfdml.argument_checks"
DECLARED = f"tfdml.registry {CHECKED}"
# Room: (what it may import of this repository, what of others). The standard library is free to all. What is not
# here joins rooms: it may import anything, and no room may import it.
ROOMS = {
    "tfdml.specs": ("", ""),
    "tfdml.arguments": ("", "numpy"),
    "tfdml.argument_checks": ("tfdml.arguments tfdml.names", ""),
    "tfdml.names": ("", ""),
    "tfdml.registry": ("tfdml.specs tfdml.argument_checks tfdml.names", "keras.saving"),
    "tfdml.path_parser": ("", "absl"),
    "tfdml.flags": ("tfdml.path_parser", "absl"),
    "tfdml.startup": ("", "keras"),
    "tfdml.errors": ("", ""),
    "tfdml.disk_errors": ("", ""),
    "tfdml.loss_hooks": ("", ""),
    "tfdml.keras_internals": ("", ""),
    "tfdml.progress_bar": ("", "keras"),
    "tfdml.progress_lines": ("tfdml.progress_bar", "keras"),
    "tfdml.devices": ("tfdml.keras_internals", "tensorflow"),
    "tfdml.workers": ("tfdml.devices tfdml.errors", "numpy tensorflow"),
    "tfdml.sharded_variable": ("", "keras numpy tensorflow"),
    "tfdml.faiss_library": ("", "faiss"),
    "tfdml.checked_files": ("", ""),
    "tfdml.archive_sizes": ("", ""),
    "tfdml.parquet_footer": ("", ""),
    "tfdml.parquet_files": ("tfdml.archive_sizes tfdml.checked_files tfdml.parquet_footer", "pyarrow"),
    "tfdml.folder_lock": ("tfdml.checked_files", ""),
    "tfdml.embedding_shards": ("tfdml.checked_files tfdml.parquet_files", "numpy pyarrow"),
    "tfdml.clustering": ("tfdml.faiss_library tfdml.progress_bar", "numpy scipy"),
    "tfdml.hard_proxies": (CHECKED, "numpy"),
    "tfdml.meta_classes": (CHECKED, "numpy"),
    "tfdml.neighbors": ("tfdml.faiss_library tfdml.workers", "numpy"),
    "tfdml.functional": (f"tfdml.functional {CHECKED}", "keras numpy"),
    # A loss names the callback that it brings; callbacks import no losses.
    "tfdml.losses": (
        "tfdml.losses tfdml.layers tfdml.functional tfdml.loss_hooks tfdml.callbacks tfdml.sharded_variable "
        f"{DECLARED}",
        "keras numpy",
    ),
    "tfdml.layers": (
        f"tfdml.layers tfdml.functional tfdml.loss_hooks tfdml.keras_internals tfdml.sharded_variable {DECLARED}",
        "keras numpy",
    ),
    "tfdml.backbones": (f"tfdml.backbones tfdml.layers tfdml.functional {DECLARED}", "keras numpy"),
    "tfdml.heads": (f"tfdml.heads tfdml.layers {DECLARED}", "keras"),
    "tfdml.memories": (f"tfdml.memories {DECLARED}", ""),
    "tfdml.weights": (
        "tfdml.weights tfdml.archive_sizes tfdml.checked_files tfdml.registry",
        "google.protobuf h5py numpy torch",
    ),
    "tfdml.preprocessing": ("tfdml.arguments", ""),
    "tfdml.optimizers": (f"tfdml.optimizers tfdml.keras_internals tfdml.sharded_variable {DECLARED}", "keras"),
    "tfdml.methods": (
        # The last two for the callbacks that a method brings, and the sampler that it wraps.
        "tfdml.methods tfdml.heads tfdml.memories tfdml.layers tfdml.functional tfdml.loss_hooks tfdml.optimizers "
        "tfdml.preprocessing tfdml.devices tfdml.keras_internals tfdml.meta_classes tfdml.sharded_variable "
        f"tfdml.callbacks pipelines.sampling {DECLARED}",
        "keras numpy tensorflow",
    ),
    "tfdml.reporting": (
        "tfdml.reporting tfdml.checked_files tfdml.evaluation",
        "PIL matplotlib numpy sklearn threadpoolctl",
    ),
    "tfdml.serving.http": (
        "tfdml.serving pipelines.datasets",
        "fastapi numpy pydantic python_multipart starlette uvicorn",
    ),
    "tfdml.serving": (
        "tfdml.serving tfdml.checked_files tfdml.clustering tfdml.embedding_shards tfdml.faiss_library "
        "tfdml.folder_lock tfdml.methods tfdml.parquet_files tfdml.preprocessing tfdml.progress_bar tfdml.registry "
        "pipelines.datasets pipelines.images pipelines.reading",
        "PIL apache_beam keras numpy onnx pyarrow sklearn tensorflow tf2onnx",
    ),
    "pipelines.check": ("pipelines tfdml.registry tfdml.command tfdml.flags tfdml.progress_bar", None),
    "pipelines.pack": ("pipelines tfdml.registry tfdml.command tfdml.flags tfdml.progress_bar", None),
    # Draws what a run would see, so it joins rooms as the commands of tfdml do.
    "pipelines.show": ("pipelines tfdml", None),
    "pipelines.images": (
        "pipelines.images pipelines.datasets.headers pipelines.datasets.decoding_cost",
        "numpy tensorflow",
    ),
    "pipelines.transforms": (f"pipelines.transforms pipelines.images {DECLARED}", "keras keras_cv numpy tensorflow"),
    "pipelines.sampling": (f"pipelines.sampling tfdml.neighbors tfdml.workers {DECLARED}", "absl numpy tensorflow"),
    "pipelines.reading": (
        "pipelines.reading pipelines.images pipelines.sampling pipelines.datasets tfdml.checked_files "
        f"tfdml.progress_bar {DECLARED}",
        None,
    ),
    "pipelines.datasets": (
        f"pipelines.datasets tfdml.progress_bar tfdml.checked_files tfdml.folder_lock tfdml.parquet_files {DECLARED}",
        None,
    ),
    "pipelines": (f"pipelines {DECLARED}", None),
}
# Rooms that are no leaves: what they must not import.
FORBIDDEN = {
    "tfdml.evaluation": "tfdml.run tfdml.callbacks tfdml.methods tfdml.losses tfdml.backbones pipelines",
    "tfdml.callbacks": "tfdml.run tfdml.methods tfdml.losses tfdml.backbones tfdml.layers pipelines",
}
COMMANDS = (
    "train",
    "evaluate",
    "ensemble",
    "compare",
    "export",
    "convert_weights",
    "embed",
    "index",
    "cluster",
    "search",
    "serve",
    "report",
    "command",
)
PIPELINE_COMMANDS = ("check", "pack", "show")
COMMAND_LINES = {
    *(f"tfdml/{name}.py" for name in COMMANDS),
    *(f"pipelines/{name}.py" for name in PIPELINE_COMMANDS),
}


@cache
def trees():
    return {file: ast.parse((ROOT / file).read_text()) for file in FILES}


def imported(tree):
    """Full names of all that a module imports, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def inside(name, rooms):
    return any(name == room or name.startswith(room + ".") for room in rooms.split())


def ours(name):
    return name.startswith(".") or inside(name, "tfdml pipelines")


def room_of(file, table):
    module = ".".join(file.with_suffix("").parts)
    return next((room for room in table if inside(module, room)), None)


def offenders(of_file):
    """Name of each file to what the function finds wrong in it, where it finds anything."""
    return {str(file): list(wrong) for file, tree in trees().items() if (wrong := of_file(file, tree))}


def against_the_directions(file, tree):
    names = [name for name in imported(tree) if name.split(".")[0] not in sys.stdlib_module_names]
    room, forbidden = room_of(file, ROOMS), room_of(file, FORBIDDEN)
    own, others = ROOMS.get(room, ("tfdml pipelines", None))
    wrong = [name for name in names if ours(name) and not inside(name, own)]
    wrong += [name for name in names if not ours(name) and others is not None and not inside(name, others)]
    return wrong + [name for name in names if forbidden and inside(name, FORBIDDEN[forbidden])]


def test_imports_keep_the_directions():
    """Relative ones are wrong, too."""
    assert offenders(against_the_directions) == {}


# Where a name that begins with an underscore is used of something that is not tfdml's own.
PRIVATE_USES = {
    "pipelines/datasets/archives.py": {"_proc_member"},
    "tfdml/serving/beam_workers.py": {"_futures_by_id"},
    "tfdml/startup.py": {"_exit"},
}


def private_names_of_others(file, tree):
    if str(file) == "tfdml/keras_internals.py":
        return []
    private = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
    ]
    own = {node.attr for node in private if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")}
    return {node.attr for node in private} - own - PRIVATE_USES.get(str(file), set())


def test_private_names_of_others_stand_in_one_file():
    assert offenders(private_names_of_others) == {}


def test_every_room_of_the_tables_exists():
    for room in (*ROOMS, *FORBIDDEN):
        assert [file for file in FILES if inside(".".join(file.with_suffix("").parts), room)], room


def uses_of_flags(file, tree):
    """Lines with FLAGS where no command line is, and imports of it anywhere."""
    uses = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "FLAGS"]
    uses += [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "FLAGS"]
    if str(file) == "tfdml/flags.py":
        # There FLAGS is only where definitions go unless the caller names another place.
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        defaults = {default.lineno for function in functions for default in function.args.defaults}
        uses = [line for line in uses if line not in defaults]
    if str(file) in COMMAND_LINES:
        uses = []
    return uses + [name for name in imported(tree) if name.endswith(".FLAGS")]


def test_only_command_lines_read_flags():
    assert offenders(uses_of_flags) == {}


def test_no_assert_statement():
    assert offenders(lambda _, tree: [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]) == {}


def test_files_stay_short():
    lines = {str(file): len((ROOT / file).read_text().splitlines()) for file in FILES}
    assert {file: count for file, count in lines.items() if count > MOST_LINES} == {}
