"""The packages, from the ground up, and which others each may import; docs/architecture.md draws this table."""

ROOMS = {
    # Parts by name, specs, checked arguments.
    "tfdml/registry": [],
    # What every command line shares.
    "tfdml/console": [],
    # Devices, workers, private names of Keras.
    "tfdml/runtime": [],
    # Checked files, locks, embeddings on disk.
    "tfdml/files": [],
    # Functions of tensors.
    "tfdml/functional": ["tfdml/registry"],
    # Optimizers, layer groups, schedules.
    "tfdml/optimizers": ["tfdml/registry", "tfdml/runtime"],
    # Nearest neighbors and k-means.
    "tfdml/neighbors": ["tfdml/console", "tfdml/runtime"],
    # Layers, also those that hold a loss's variables.
    "tfdml/layers": ["tfdml/functional", "tfdml/registry", "tfdml/runtime"],
    # From embeddings to metrics.
    "tfdml/evaluation": ["tfdml/console", "tfdml/files", "tfdml/neighbors", "tfdml/registry", "tfdml/runtime"],
    # From datasets to tf.data batches.
    "pipelines": ["tfdml/console", "tfdml/files", "tfdml/neighbors", "tfdml/registry"],
    # Networks with published weights.
    "tfdml/backbones": ["tfdml/files", "tfdml/layers", "tfdml/registry"],
    # Layers between backbone and embedding.
    "tfdml/heads": ["tfdml/layers", "tfdml/registry"],
    # What happens between training steps.
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
    # Models, and the one training step.
    "tfdml/methods": [
        "pipelines",
        "tfdml/callbacks",
        "tfdml/functional",
        "tfdml/heads",
        "tfdml/layers",
        "tfdml/optimizers",
        "tfdml/registry",
        "tfdml/runtime",
    ],
    # One training from its settings to its result.
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
    # Pages and pictures of runs.
    "tfdml/reporting": ["pipelines", "tfdml/console", "tfdml/evaluation", "tfdml/files", "tfdml/registry", "tfdml/run"],
    # Export, indexes, the HTTP service.
    "tfdml/serving": [
        "pipelines",
        "tfdml/console",
        "tfdml/files",
        "tfdml/methods",
        "tfdml/neighbors",
        "tfdml/registry",
        "tfdml/run",
    ],
    # The public names, and one file per command.
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
    ],
}

# What a command may import: `python -m tfdml.train`, a file at the top of tfdml.
OF_COMMANDS = [
    "tfdml/backbones",
    "tfdml/console",
    "tfdml/files",
    "tfdml/reporting",
    "tfdml/run",
    "tfdml/serving",
]

# Commands that look at datasets: files at the top of pipelines.
OF_PIPELINE_COMMANDS = ["pipelines", "tfdml/console", "tfdml/registry"]
PIPELINE_COMMANDS = ["check", "pack"]

# Files at the top of tfdml that are rooms, and no commands.
FILES = ["__init__", "data"]
