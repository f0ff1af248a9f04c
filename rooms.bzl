"""The packages, from the lowest layer up, and which other packages each may import; see docs/architecture.md."""

ROOMS = {
    # Components by name, specs and argument checks.
    "tfdml/registry": [],
    # Code that all commands share.
    "tfdml/console": [],
    # Devices, workers and private names of Keras.
    "tfdml/runtime": [],
    # Checked files, locks and embeddings on disk.
    "tfdml/files": [],
    # Functions of tensors.
    "tfdml/functional": ["tfdml/registry"],
    # Optimizers, layer groups and schedules.
    "tfdml/optimizers": ["tfdml/registry", "tfdml/runtime"],
    # Nearest neighbors and k-means.
    "tfdml/neighbors": ["tfdml/console", "tfdml/runtime"],
    # Layers, including the ones with variables of a loss.
    "tfdml/layers": ["tfdml/functional", "tfdml/registry", "tfdml/runtime"],
    # From embeddings to metrics.
    "tfdml/evaluation": ["tfdml/console", "tfdml/files", "tfdml/neighbors", "tfdml/registry", "tfdml/runtime"],
    # From datasets to tf.data batches.
    "pipelines": ["tfdml/console", "tfdml/files", "tfdml/neighbors", "tfdml/registry", "tfdml/runtime"],
    # Networks with published weights.
    "tfdml/backbones": ["tfdml/files", "tfdml/layers", "tfdml/registry"],
    # Layers between the backbone and the embedding.
    "tfdml/heads": ["tfdml/layers", "tfdml/registry"],
    # Text towers and their tokenizers.
    "tfdml/texts": ["tfdml/backbones", "tfdml/layers", "tfdml/registry"],
    # Actions between training steps.
    "tfdml/callbacks": [
        "tfdml/evaluation",
        "tfdml/files",
        "tfdml/layers",
        "tfdml/neighbors",
        "tfdml/registry",
        "tfdml/runtime",
    ],
    # Batches of your own images.
    "tfdml/data": ["pipelines"],
    # One loss or family of losses per file.
    "tfdml/losses": ["tfdml/callbacks", "tfdml/functional", "tfdml/layers", "tfdml/registry"],
    # Models and their common training step.
    "tfdml/methods": [
        "pipelines",
        "tfdml/callbacks",
        "tfdml/functional",
        "tfdml/heads",
        "tfdml/layers",
        "tfdml/losses",
        "tfdml/optimizers",
        "tfdml/registry",
        "tfdml/runtime",
        "tfdml/texts",
    ],
    # A training run, from its settings to its result.
    "tfdml/run": [
        "pipelines",
        "tfdml/backbones",
        "tfdml/callbacks",
        "tfdml/console",
        "tfdml/evaluation",
        "tfdml/files",
        "tfdml/methods",
        "tfdml/registry",
        "tfdml/runtime",
    ],
    # Reports and figures of runs.
    "tfdml/reporting": ["pipelines", "tfdml/console", "tfdml/evaluation", "tfdml/files", "tfdml/registry", "tfdml/run"],
    # Export, indexes and the HTTP service.
    "tfdml/serving": [
        "pipelines",
        "tfdml/console",
        "tfdml/files",
        "tfdml/methods",
        "tfdml/neighbors",
        "tfdml/registry",
        "tfdml/run",
        "tfdml/runtime",
        "tfdml/texts",
    ],
    # The public names, and one file for each command.
    "tfdml": [
        "pipelines",
        "tfdml/backbones",
        "tfdml/callbacks",
        "tfdml/console",
        "tfdml/data",
        "tfdml/evaluation",
        "tfdml/functional",
        "tfdml/heads",
        "tfdml/layers",
        "tfdml/losses",
        "tfdml/methods",
        "tfdml/optimizers",
        "tfdml/registry",
        "tfdml/reporting",
        "tfdml/run",
        "tfdml/serving",
        "tfdml/texts",
    ],
}

# Packages that commands such as `python -m tfdml.train` may import. Commands are the files in the folder tfdml.
OF_COMMANDS = [
    "tfdml/backbones",
    "tfdml/console",
    "tfdml/files",
    "tfdml/reporting",
    "tfdml/run",
    "tfdml/serving",
]

# Commands for datasets, which are files in the folder pipelines, and the packages that they may import.
OF_PIPELINE_COMMANDS = ["pipelines", "tfdml/console", "tfdml/registry"]
PIPELINE_COMMANDS = ["check", "pack"]

# Files in the folder tfdml that are packages and not commands.
FILES = ["__init__", "data"]
