"""Reads tables of images: a CSV or Parquet file with the column `path` and perhaps `label`."""

from pathlib import Path

from pipelines.labels import read_table, row_of
from tfdml.files.shards import is_of_texts, read_columns, values_of

ENDINGS = (".csv", ".parquet")


def read_image_table(file):
    """Returns paths, a list of texts, and labels, a list of texts or None where an image has none.

    Args:
        file: path that ends in `.csv` or `.parquet`.
    """
    paths, labels = (_of_csv if Path(file).suffix == ".csv" else _of_parquet)(file)
    missing = next((row for row, path in enumerate(paths) if not path), None)
    if missing is not None:
        raise ValueError(f"{file}: row {missing} of the images has no path.")
    return paths, [None if label in (None, "") else str(label) for label in labels]


def _of_csv(file):
    header, found = read_table(file, lambda header: _check(file, header))
    rows = [row_of(file, header, row, line) for row, line in found]
    return [row["path"] for row in rows], [row.get("label") for row in rows]


def _of_parquet(file):
    try:
        found = read_columns(file, ("path", "label"), check=lambda names: _check("it", names))
        if not is_of_texts(found["path"]):
            raise ValueError(f"expected a column path of texts, received type {found['path'].type}")
        paths = values_of(found["path"])
        return paths, values_of(found["label"]) if "label" in found.column_names else [None] * len(paths)
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read: {error}.") from error


def _check(file, header):
    if "path" not in header or len(set(header)) < len(header):
        raise ValueError(f"{file} has the columns {header}; expected path and, for labels, label, each once.")
