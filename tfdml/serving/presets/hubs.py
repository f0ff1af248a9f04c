"""Addresses of presets: folders, the Hugging Face Hub and Kaggle, each by the hub's own client."""

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tfdml.files.checked import reason_of

EXPECTED = "a folder, hf://owner/name, hf://owner/name@revision, or kaggle://owner/model/keras/variation"
NAME = r"[\w.-]+"


@dataclass(frozen=True)
class Hub:
    """How a hub's client, a module, downloads and uploads.

    Args:
        client: name of the module.
        places: pattern of what may follow the scheme.
        download: function from the client, a place and names of files to the path of a folder.
        upload: function from the client, a place, a folder and names of files.
    """

    client: str
    places: str
    download: Callable
    upload: Callable


def _download_from_hugging_face(client, place, names):
    name, _, revision = place.partition("@")
    return client.snapshot_download(repo_id=name, revision=revision or None, allow_patterns=names)


def _upload_to_hugging_face(client, place, folder, names):
    client.create_repo(repo_id=place, exist_ok=True)
    client.upload_folder(repo_id=place, folder_path=folder, allow_patterns=names)


def _download_from_kaggle(client, place, names):
    del names
    return client.model_download(place)


def _upload_to_kaggle(client, place, folder, names):
    others = [path.name for path in Path(folder).iterdir() if path.name not in names]
    client.model_upload(place, folder, ignore_patterns=others)


HUBS = {
    "hf": Hub("huggingface_hub", f"{NAME}/{NAME}(@[\\w./-]+)?", _download_from_hugging_face, _upload_to_hugging_face),
    "kaggle": Hub("kagglehub", f"{NAME}/{NAME}/{NAME}/{NAME}(/\\d+)?", _download_from_kaggle, _upload_to_kaggle),
}


def is_on_hub(address):
    """Whether an address names a hub, known or not, and no folder."""
    return "://" in str(address)


def downloaded(address, names):
    """Returns the path of the folder, in the cache of the hub's client, that holds a preset.

    Args:
        address: such as `hf://owner/name`.
        names: names of its files.
    """
    hub, place = _hub_of(address)
    client = _client_of(hub, address)
    try:
        return Path(hub.download(client, place, names))
    except (OSError, ValueError) as error:
        raise OSError(f"{address} cannot be downloaded: {reason_of(error)}") from error


def upload(address, folder, names):
    """Uploads files of a folder to a hub, which makes what is missing at the address."""
    check_upload(address)
    hub, place = _hub_of(address)
    try:
        hub.upload(_client_of(hub, address), place, str(folder), names)
    except (OSError, ValueError) as error:
        raise OSError(f"{folder} cannot be uploaded to {address}: {reason_of(error)}") from error


def check_upload(address):
    """Raises an error, before there is work that would be lost, if nothing can be uploaded to an address."""
    if not is_on_hub(address):
        raise ValueError(f"Expected hf://owner/name or kaggle://owner/model/keras/variation; received {address}.")
    hub, place = _hub_of(address)
    # These name one version, which the hub makes.
    if "@" in place or re.search(r"/\d+$", place):
        raise ValueError(f"{address} names a version. Leave it out: each upload makes a new one.")
    _client_of(hub, address)


def _hub_of(address):
    """Returns the `Hub` of an address, and the place there."""
    scheme, _, place = str(address).partition("://")
    if scheme not in HUBS:
        raise ValueError(f"{address} begins with an unknown scheme; expected {EXPECTED}.")
    if not re.fullmatch(HUBS[scheme].places, place):
        raise ValueError(f"{address} is incomplete or has too much; expected {EXPECTED}.")
    return HUBS[scheme], place


def _client_of(hub, address):
    try:
        return importlib.import_module(hub.client)
    except ImportError as error:
        raise ImportError(f"{address} needs {hub.client}: pip install 'tfdml[share]'.") from error
