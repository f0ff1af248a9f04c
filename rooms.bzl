"""The rooms of the house, from the ground up, and the rooms that each may import."""

ROOMS = {
    # Parts by name, specs, declared and checked arguments.
    "tfdml/registry": [],
    # Flags by topic, help, errors of one line, Ctrl-C, progress.
    "tfdml/console": [],
    # Devices, workers, sharded variables, every private name of Keras.
    "tfdml/runtime": [],
    # Files that are whole or not there, locks, embeddings on disk.
    "tfdml/files": [],
    # Functions of tensors.
    "tfdml/functional": ["tfdml/registry"],
    # Optimizers by name, layer groups, schedules.
    "tfdml/optimizers": ["tfdml/registry", "tfdml/runtime"],
    # Nearest neighbors and K-means.
    "tfdml/neighbors": ["tfdml/console", "tfdml/runtime"],
    "tfdml/layers": ["tfdml/functional", "tfdml/registry", "tfdml/runtime"],
    # Embeddings to measures.
    "tfdml/evaluation": ["tfdml/console", "tfdml/files", "tfdml/neighbors", "tfdml/registry", "tfdml/runtime"],
    # Datasets to tf.data.
    "pipelines": ["tfdml/console", "tfdml/files", "tfdml/neighbors", "tfdml/registry"],
    # Networks, with their published weights.
    "tfdml/backbones": ["tfdml/files", "tfdml/layers", "tfdml/registry"],
    # Features to the layer that embeds them.
    "tfdml/heads": ["tfdml/layers", "tfdml/registry"],
    # What happens around the steps of training.
    "tfdml/callbacks": [
        "tfdml/evaluation",
        "tfdml/files",
        "tfdml/layers",
        "tfdml/neighbors",
        "tfdml/registry",
        "tfdml/runtime",
    ],
    # Batches of a user's own images.
    "tfdml/data": ["pipelines"],
    "tfdml/losses": ["tfdml/callbacks", "tfdml/functional", "tfdml/layers", "tfdml/registry"],
    # Models: images to embeddings of learners.
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
    # A run: its directory, from settings to data and devices, training, ensembles; studies of many, and searches.
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
    # A trained model outside of training: exported, embedding, indexed, over HTTP.
    "tfdml/serving": [
        "pipelines",
        "tfdml/console",
        "tfdml/files",
        "tfdml/methods",
        "tfdml/neighbors",
        "tfdml/registry",
        "tfdml/run",
    ],
    # The public names.
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
