"""Clients of hubs that keep what is uploaded in a folder, in place of `huggingface_hub` and `kagglehub`."""

import shutil
import types
from pathlib import Path


def hugging_face(folder, calls):
    """The module; its cache holds links to files, as the client's own."""
    folder = Path(folder)

    def create_repo(repo_id, exist_ok):
        calls.append(("create_repo", repo_id, exist_ok))

    def upload_folder(repo_id, folder_path, allow_patterns):
        copied(folder_path, folder / "blobs" / repo_id, allow_patterns)

    def snapshot_download(repo_id, revision, allow_patterns):
        calls.append(("snapshot_download", repo_id, revision))
        blobs, snapshot = folder / "blobs" / repo_id, folder / "snapshots" / repo_id
        if not blobs.is_dir():
            raise OSError(f"404 Client Error.\n\nRepository Not Found for {repo_id}.")
        snapshot.mkdir(parents=True, exist_ok=True)
        for name in allow_patterns:
            if not (snapshot / name).exists():
                (snapshot / name).symlink_to(blobs / name)
        return str(snapshot)

    return types.SimpleNamespace(
        create_repo=create_repo, upload_folder=upload_folder, snapshot_download=snapshot_download
    )


def kaggle(folder, calls):
    folder = Path(folder)

    def model_upload(handle, local_model_dir, ignore_patterns):
        names = [path.name for path in Path(local_model_dir).iterdir() if path.name not in ignore_patterns]
        copied(local_model_dir, folder / handle, names)

    def model_download(handle):
        calls.append(("model_download", handle))
        return str(folder / handle)

    return types.SimpleNamespace(model_upload=model_upload, model_download=model_download)


def copied(source, target, names):
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(Path(source) / name, target / name)
