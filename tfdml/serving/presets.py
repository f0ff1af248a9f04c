"""Presets: models with preprocessing, facts and a card, in folders and on hubs."""

import importlib
import json
import re
from pathlib import Path

from tfdml.files.checked import (
    damaged,
    fingerprint,
    new_folder,
    read_manifest,
    reason_of,
    whole_folder,
    write_manifest,
)
from tfdml.methods import EmbeddingModel
from tfdml.registry.arguments import FilePath
from tfdml.registry.fields import declared
from tfdml.run.directory.model_archive import load_archive
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.experiment import trained_model
from tfdml.run.loading import ImageEmbedder, load
from tfdml.serving.exports import facts_of_model, facts_of_run
from tfdml.serving.model_card import rows_of_embedding, rows_of_network, scores_of, table_of

EXPECTED = "a folder, hf://owner/name, hf://owner/name@revision, or kaggle://owner/model/keras/variation"
NAME = r"[\w.-]+"


class HuggingFace:
    """The Hugging Face Hub, with the name of its client module."""

    client, places = "huggingface_hub", f"{NAME}/{NAME}(@[\\w./-]+)?"

    @staticmethod
    def download(client, place):
        name, _, revision = place.partition("@")
        return client.snapshot_download(repo_id=name, revision=revision or None, allow_patterns=FILES)

    @staticmethod
    def upload(client, place, folder):
        client.create_repo(repo_id=place, exist_ok=True)
        client.upload_folder(repo_id=place, folder_path=folder, allow_patterns=FILES)


class Kaggle:
    """Kaggle, with the name of its client module."""

    client, places = "kagglehub", f"{NAME}/{NAME}/{NAME}/{NAME}(/\\d+)?"

    @staticmethod
    def download(client, place):
        return client.model_download(place)

    @staticmethod
    def upload(client, place, folder):
        others = [path.name for path in Path(folder).iterdir() if path.name not in FILES]
        client.model_upload(place, folder, ignore_patterns=others)


HUBS = {"hf": HuggingFace, "kaggle": Kaggle}


def is_on_hub(address):
    """Returns whether an address names a hub, known or not, instead of a folder."""
    return "://" in str(address)


def downloaded(address):
    """Downloads the files of a preset. Returns their folder in the cache of the hub's client."""
    hub, place = _hub_of(address)
    try:
        return Path(hub.download(_client_of(hub, address), place))
    except (OSError, ValueError) as error:
        raise OSError(f"{address} cannot be downloaded: {reason_of(error)}") from error


def check_upload(address):
    """Raises an error if nothing can be uploaded to an address, before there is work that would be lost."""
    if not is_on_hub(address):
        raise ValueError(
            f"The address must be hf://owner/name or kaggle://owner/model/keras/variation. Received: {address}."
        )
    hub, place = _hub_of(address)
    # Such addresses name a version, and only the hub creates versions.
    if "@" in place or re.search(r"/\d+$", place):
        raise ValueError(f"{address} names a version. Remove the version, because each upload creates a new one.")
    _client_of(hub, address)


def _hub_of(address):
    """Returns the hub of an address and the address within this hub."""
    scheme, _, place = str(address).partition("://")
    if scheme not in HUBS:
        raise ValueError(f"{address} starts with an unknown scheme. Expected {EXPECTED}.")
    if not re.fullmatch(HUBS[scheme].places, place):
        raise ValueError(f"{address} is not a complete address. Expected {EXPECTED}.")
    return HUBS[scheme], place


def _client_of(hub, address):
    try:
        return importlib.import_module(hub.client)
    except ImportError as error:
        raise ImportError(f"{address} needs {hub.client}: pip install 'tfdml[share]'.") from error


TASK = "image-feature-extraction"
TAGS = ["keras", "tfdml", "metric-learning", "image-retrieval", "image-similarity"]
# Shown in the card as long as the address is not known.
PLACE = "folder or address of this preset"


def readme(facts, name):
    """Returns the text of README.md, from `facts_of_model`, other facts and, for a run, `facts_of_run`."""
    rows = {**(rows_of_network(facts) if "method" in facts else {}), **rows_of_embedding(facts)}
    rows["license"] = facts.get("license") or "not stated"
    rows["versions"] = ", ".join(f"{package} {version}" for package, version in facts["versions"].items())
    parts = [
        front_matter(facts, name) + f"\n# {name}",
        "This model maps images to embeddings. Similar images have similar embeddings. Its preprocessing is included.",
        f'```python\nimport tfdml\n\nembedder = tfdml.from_preset("{facts.get("address") or PLACE}")\n'
        'embeddings = embedder.embed(["one.jpg", "other.jpg"])\n```',
        table_of(rows),
        *(scores_of(facts) if facts.get("scores") else []),
        (
            "`config.json` contains the same information for programs, and the SHA-256 of `model.keras`, which "
            "`tfdml.from_preset` checks."
        ),
    ]
    return "\n\n".join(parts) + "\n"


def front_matter(facts, name):
    """Returns the YAML that hubs read, with one line per key. The values are JSON, which is also YAML."""
    found = {"library_name": "tfdml", "pipeline_tag": TASK, "tags": TAGS}
    if facts.get("license"):
        found["license"] = facts["license"]
    if facts.get("scores"):
        dataset, intervals = facts["data"]["dataset"], facts["intervals"]
        metrics = [{"type": name, "value": value} for name, value in facts["scores"].items()]
        for metric in metrics:
            if ends := intervals.get(metric["type"]):
                metric["args"] = {"interval_95": ends}
        # A hub expects a type without the spec's arguments.
        about = {"type": dataset.partition("(")[0], "name": dataset, "split": "test"}
        results = [{"task": {"type": TASK}, "dataset": about, "metrics": metrics}]
        found["model-index"] = [{"name": name, "results": results}]
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in found.items()]
    return "\n".join(["---", *lines, "---", ""])


# The Hugging Face Hub counts downloads by a file of this name.
CONFIG = "config.json"
MODEL, README = "model.keras", "README.md"
FILES = [CONFIG, MODEL, README]
WHAT, VERSION = "tfdml preset", 1


@declared
def save_preset(
    model: EmbeddingModel, folder: FilePath, license: str | None = None, *, licence: str | None = None
) -> None:
    """Saves a model, its preprocessing and a model card to a new folder, for `tfdml.from_preset`.

    Use a preset to share a model with other tfdml users, who can embed images with it in two lines. To publish it, pass
    the folder to `tfdml.upload_preset`.

    Args:
        model: tfdml model with its `preprocessing`, such as `tfdml.Single`.
        folder: Folder to write to. It must be empty or not exist.
        license: String or `None`. License identifier as hubs use it, such as `"apache-2.0"`. If `None`, the card does
            not state a license. Defaults to `None`.
        licence: Old spelling of `license`.

    Raises:
        ValueError: If the model is not a tfdml model or has no preprocessing, or if the folder is not empty.

    Example:

    ```python
    model = tfdml.Single(tfdml.backbones.Small(), embedding_size=64)
    model.preprocessing = tfdml.Preprocessing.of(model, image_size=32)
    tfdml.save_preset(model, "presets/cars", license="apache-2.0")
    tfdml.from_preset("presets/cars").dimension  # 64
    ```
    """
    if not isinstance(model, EmbeddingModel):
        raise ValueError(f"model must be a tfdml model, such as tfdml.Single. Received: {type(model).__name__}.")
    write_preset(model, folder, {"license": license or licence})


def write_preset(model, folder, about):
    """Writes the preset of a model, with facts that the model does not know; see `save_preset` and `readme`."""
    out = new_folder(folder, "the preset")
    # This rejects models without preprocessing.
    ImageEmbedder(model)
    facts = {**facts_of_model(model), **about}
    with whole_folder(out, "preset") as unfinished:
        model.save(unfinished / MODEL)
        # Loading and saving again removes the optimizer and the loss of a compiled model, and proves that the file
        # loads.
        load_archive(unfinished / MODEL).save(unfinished / MODEL)
        files = {MODEL: fingerprint(unfinished / MODEL)}
        write_manifest(unfinished / CONFIG, WHAT, VERSION, {"class": type(model).__name__, **facts, "files": files})
        (unfinished / README).write_text(readme(facts, out.name), encoding="utf-8")


@declared
def from_preset(address: FilePath) -> ImageEmbedder:
    """Loads the model of a preset with its preprocessing, ready to embed images.

    The model file must match the checksum in the preset.

    Args:
        address: Folder that `save_preset` has written, `hf://owner/name` or `hf://owner/name@revision` on the Hugging
            Face Hub, or `kaggle://owner/model/keras/variation`. The hubs need the extra `share`.

    Returns:
        An `ImageEmbedder`. Its `model` is the Keras model.

    Raises:
        ValueError: If the address is not a preset, or its files are damaged.
        OSError: If a preset cannot be downloaded.

    Example:

    ```python
    model = tfdml.Single(tfdml.backbones.Small(), embedding_size=64)
    model.preprocessing = tfdml.Preprocessing.of(model, image_size=32)
    tfdml.save_preset(model, "presets/cups")
    image = np.zeros((32, 32, 3), "uint8")
    tfdml.from_preset("presets/cups").embed([image]).shape  # (1, 64)
    ```
    """
    on_hub = is_on_hub(address)
    folder = downloaded(address) if on_hub else Path(address)
    # The caches of hubs contain links to files.
    embedder = load(_checked(folder, may_link=on_hub))
    embedder.source = str(address)
    return embedder


@declared
def upload_preset(address: FilePath, folder: FilePath) -> None:
    """Uploads a preset with the account that you have logged in to in the hub's client.

    It creates the address if it does not exist. The preset is then public, unless you have created a private address
    first. Uploads need the extra `share`.

    Args:
        address: `hf://owner/name` or `kaggle://owner/model/keras/variation`.
        folder: Folder that `save_preset` has written.

    Raises:
        ValueError: If the address is not a hub address, or the folder is not a valid preset.
        OSError: If the upload fails.
    """
    check_upload(address)
    _checked(Path(folder), may_link=False)
    hub, place = _hub_of(address)
    try:
        hub.upload(_client_of(hub, address), place, str(folder))
    except (OSError, ValueError) as error:
        raise OSError(f"{folder} cannot be uploaded to {address}: {reason_of(error)}") from error


def is_preset(path):
    """Returns whether a path is a hub address, or a folder with the files of a preset."""
    return is_on_hub(path) or all((Path(path) / name).is_file() for name in (CONFIG, MODEL))


def _checked(folder, may_link):
    """Returns the path of the model in a preset. Raises a ValueError if it is not what was written."""
    advice = "Download or save the preset again."
    expected = read_manifest(folder / CONFIG, WHAT, VERSION, {"files": dict}, advice)["files"].get(MODEL)
    if not isinstance(expected, dict):
        raise damaged(folder / CONFIG, f"the checksum of {MODEL} is missing", advice)
    file = folder / MODEL
    if not file.is_file():
        raise ValueError(f"{file} is missing. {advice}")
    if file.is_symlink() and not may_link:
        raise ValueError(f"{file} is a link, which may lead out of the preset. Do not use this preset.")
    found = fingerprint(file)
    if found != expected:
        reason = f"its SHA-256 is {found['sha256']}, but {CONFIG} states {expected.get('sha256')}"
        raise damaged(file, reason, advice)
    return file


def share_run(run_dir, which, out, *, license=None, upload="", changes=()):
    """Writes the preset of a run's `best` or `final` model and, if `upload` is an address, uploads it.

    `changes` are settings to replace; see `trained_model`.
    """
    if upload:
        # Check the address now, before there is work that would be lost.
        check_upload(upload)
    model = trained_model(run_dir, which, changes)
    about = {"license": license, "address": upload or None}
    write_preset(model, out, {**facts_of_run(RunDirectory(run_dir), which, model), **about})
    if upload:
        upload_preset(upload, out)
