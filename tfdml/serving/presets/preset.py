"""Presets: a model with its preprocessing, facts and card, in a folder that is shared as it is."""

from pathlib import Path

from tfdml.files.checked import fingerprint, new_folder, read_manifest, whole_folder, write_manifest
from tfdml.methods import EmbeddingModel
from tfdml.registry.arguments import FilePath
from tfdml.registry.fields import declared
from tfdml.run.directory.model_files import load_archive
from tfdml.run.loading import ImageEmbedder, load
from tfdml.serving.exported.written_export import facts_of_model
from tfdml.serving.presets import hubs
from tfdml.serving.presets.preset_card import readme

# The Hugging Face Hub counts downloads of a file of this name.
CONFIG = "config.json"
MODEL, README = "model.keras", "README.md"
FILES = [CONFIG, MODEL, README]
WHAT, VERSION = "tfdml preset", 1


@declared
def save_preset(model: EmbeddingModel, folder: FilePath, licence: str | None = None) -> None:
    """Saves a model, its preprocessing and a model card to a new folder, for `tfdml.from_preset`.

    Args:
        model: a model of tfdml that has its `preprocessing`.
        folder: the folder; it must be empty or not exist.
        licence: the model's licence as hubs name it, such as `apache-2.0`; None: the card states none.

    Example: `tfdml.save_preset(model, "presets/cars", licence="apache-2.0")`.
    """
    if not isinstance(model, EmbeddingModel):
        raise ValueError(f"Expected a model of tfdml, such as tfdml.Single; received {type(model).__name__}.")
    write_preset(model, folder, {"licence": licence})


def write_preset(model, folder, about):
    """Writes the preset of a model.

    Args:
        model, folder: see `save_preset`.
        about: facts that the model does not say, see `preset_card.readme`.
    """
    out = new_folder(folder, "the preset")
    # It refuses a model without preprocessing.
    ImageEmbedder(model)
    facts = {**facts_of_model(model), **about}
    with whole_folder(out, "preset") as unfinished:
        model.save(unfinished / MODEL)
        # Of a model that was compiled without the optimizer and the loss; and it proves that the file loads.
        load_archive(unfinished / MODEL).save(unfinished / MODEL)
        files = {MODEL: fingerprint(unfinished / MODEL)}
        write_manifest(unfinished / CONFIG, WHAT, VERSION, {"class": type(model).__name__, **facts, "files": files})
        (unfinished / README).write_text(readme(facts, out.name), encoding="utf-8")


@declared
def from_preset(address: FilePath) -> ImageEmbedder:
    """Loads the model of a preset with its preprocessing, to embed images, after comparing its file with its checksum.

    Args:
        address: a folder that `save_preset` wrote, `hf://owner/name` or `hf://owner/name@revision` on the Hugging
            Face Hub, or `kaggle://owner/model/keras/variation`; those two need the extra `share`.

    Returns:
        An `ImageEmbedder`; its `model` is the Keras model.

    Example: `tfdml.from_preset("hf://owner/cars").embed(["car.jpg", "other_car.jpg"])`.
    """
    on_hub = hubs.is_on_hub(address)
    folder = hubs.downloaded(address, FILES) if on_hub else Path(address)
    # Caches of hubs hold links to files.
    embedder = load(_checked(folder, may_link=on_hub))
    embedder.source = str(address)
    return embedder


@declared
def upload_preset(address: FilePath, folder: FilePath) -> None:
    """Uploads a preset with the account that the hub's client is logged in with; it needs the extra `share`.

    The address is made if it is missing, and public unless you have made it private before.

    Args:
        address: `hf://owner/name` or `kaggle://owner/model/keras/variation`.
        folder: a folder that `save_preset` wrote.
    """
    hubs.check_upload(address)
    _checked(Path(folder), may_link=False)
    hubs.upload(address, folder, FILES)


def is_preset(path):
    """Whether a path is an address of a hub, or a folder that may be a preset's."""
    return hubs.is_on_hub(path) or all((Path(path) / name).is_file() for name in (CONFIG, MODEL))


def _checked(folder, may_link):
    """Returns the path of the model in a preset; a ValueError if it is not what was written."""
    files = read_manifest(folder / CONFIG, WHAT, VERSION).get("files")
    expected = files.get(MODEL) if isinstance(files, dict) else None
    if not isinstance(expected, dict):
        raise ValueError(f"{folder / CONFIG} is damaged (the checksum of {MODEL} is missing); get the preset again.")
    file = folder / MODEL
    if not file.is_file():
        raise ValueError(f"{file} is missing; get the preset again.")
    if file.is_symlink() and not may_link:
        raise ValueError(f"{file} is a link; do not use it.")
    found = fingerprint(file)
    if found != expected:
        raise ValueError(
            f"{file} is damaged: its SHA-256 is {found['sha256']}, expected {expected.get('sha256')}, which {CONFIG} "
            "states. Get the preset again."
        )
    return file
