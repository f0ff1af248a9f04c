"""Makes checksums fit again: who makes a file on purpose makes its checksum, too."""

import json

from tfdml.files.checked import fingerprint

MANIFESTS = ("manifest.json", "checksums.json")
# Endings that entries of manifests leave out.
ENDINGS = ("", ".tar", ".parquet")


def make_checksums_fit(folder):
    """Gives all entries of manifests the checksums that their files have."""
    for manifest in (path for name in MANIFESTS for path in folder.rglob(name)):
        try:
            found = json.loads(manifest.read_text(errors="replace"))
        except (ValueError, RecursionError):
            continue
        _fit(manifest.parent, "", found)
        manifest.write_text(json.dumps(found))


def _fit(folder, name, entry):
    """Gives the entry of a file, and those in it, the checksums that the files have."""
    if not isinstance(entry, dict):
        return
    named = [folder / f"{name}{ending}" for ending in ENDINGS] if name.isprintable() and len(name) < 200 else []
    file = next((path for path in named if path.is_file()), None)
    if "sha256" in entry and file:
        entry |= fingerprint(file)
    for key, value in entry.items():
        _fit(folder, f"{name}.parquet" if key == "table" else key, value)
