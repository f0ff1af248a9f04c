"""The command line of studies on stored features, which keep what they measure in one record."""

import argparse
import json


def record_of(about, path, measure, files="FILE"):
    """Returns the record of a study: measured now if files are given on the command line, otherwise read.

    Args:
        about: Description of the command.
        path: File of the record.
        measure: Function from a name and the text after it, such as `emoji` and `emoji.npz`, to entries of the record.
        files: What comes after the name on the command line, for the help. Defaults to `"FILE"`.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar=f"NAME={files}", help="Names and .npz files of features.")
    given = parser.parse_args().files
    if given:
        record = {}
        for name, _, text in (each.partition("=") for each in given):
            record |= measure(name, text)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))
