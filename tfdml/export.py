"""Exports a trained model for serving: `python -m tfdml.export --run_dir=runs/quickstart --out=exported`."""

from pathlib import Path

from absl import flags, logging

from tfdml import command
from tfdml import flags as tfdml_flags

tfdml_flags.define_run_dir("Folder of a run.")
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_string("out", "", "Folder for the SavedModel; must be empty or not exist.")


def main():
    from tfdml import serving
    from tfdml.run.experiment import trained_model
    from tfdml.run.image_data import preprocessor_of

    out = Path(flags.FLAGS.out)
    if not flags.FLAGS.out:
        raise ValueError("--out is missing: the folder for the SavedModel.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"--out={out} exists and is not empty; give a new folder.")
    model = trained_model(flags.FLAGS.run_dir, flags.FLAGS.model)
    # Fails at once and names the path; TensorFlow would fail with a traceback, after much work.
    out.mkdir(parents=True, exist_ok=True)
    unfinished = out.with_name(f".writing-{out.name}")
    # TensorFlow logs how it names and shards the files.
    logging.set_verbosity(logging.WARNING)
    serving.export(model, preprocessor_of(model.preprocessing), unfinished)
    unfinished.rename(out)
    print(f"Exported {flags.FLAGS.run_dir} to {out}: serving_default(image_bytes [B]) -> embedding [B, D].")


if __name__ == "__main__":
    command.run(main)
