"""Tables in CSV files."""

import csv
import io

from tfdml.files.checked import open_file


def read_table(table, check_header):
    """Reads a CSV file in UTF-8 with commas and a header; empty rows are left out.

    Args:
        table: path of the file.
        check_header: function that is called with the columns' names before the rows are read, and may raise.

    Returns:
        `(header, rows)`: the columns' names, and `[(fields, line), ...]`.
    """
    try:
        with open_file(table) as content, io.TextIOWrapper(content, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip() for name in next(reader, [])]
            check_header(header)
            return header, [(row, reader.line_num) for row in reader if any(row)]
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{table} is not UTF-8 text ({error.reason} at byte {error.start}). Save it as UTF-8."
        ) from None
    except csv.Error as error:
        raise ValueError(f"{table}, line {reader.line_num}: {error}. Expected CSV with commas.") from None


def row_of(table, header, row, line):
    """Returns a row as a dictionary of stripped text; one with other columns than the header is an error."""
    if len(row) != len(header):
        raise ValueError(
            f"{table}, line {line}: {len(row)} columns where the header has {len(header)}. Put text that has commas "
            "into double quotes."
        )
    if any("\0" in text for text in row):
        raise ValueError(f"{table}, line {line}: a zero byte, which no text has. The file is damaged.")
    return {name: text.strip() for name, text in zip(header, row, strict=True)}
