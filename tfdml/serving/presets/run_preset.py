"""The preset of a run, with its scores."""

from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.experiment import trained_model
from tfdml.serving.exported.run_export import facts_of_run
from tfdml.serving.presets import hubs
from tfdml.serving.presets.preset import upload_preset, write_preset


def share_run(run_dir, which, out, *, licence=None, upload="", changes=()):
    """Writes the preset of a run's `best` or `final` model, and uploads it if `upload` is an address.

    Args:
        run_dir: path of the run.
        which: `best` or `final`.
        out: the folder; it must be empty or not exist.
        licence: as of `save_preset`.
        upload: address on a hub; empty: it stays here.
        changes: settings to replace, see `trained_model`.
    """
    if upload:
        # Before there is work that would be lost.
        hubs.check_upload(upload)
    model = trained_model(run_dir, which, changes)
    about = {"licence": licence, "address": upload or None}
    write_preset(model, out, {**facts_of_run(RunDirectory(run_dir), which, model), **about})
    if upload:
        upload_preset(upload, out)
