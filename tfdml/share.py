"""Saves the model of a run as a preset to share: a folder with the model, its checksum and a model card.

python -m tfdml.share --run_dir=runs/quickstart --out=presets/cars
python -m tfdml.share --run_dir=runs/quickstart --out=presets/cars --license=apache-2.0 --upload=hf://owner/cars
"""

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

tfdml_flags.define_run_dir("Directory of the run to share.")
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_string("out", "", "Folder for the preset. It must be empty or not exist.")
flags.DEFINE_string(
    "license",
    "",
    "License of the model, as hubs name it, such as apache-2.0. If not set, the model card has no license.",
)
flags.DEFINE_alias("licence", "license")
flags.DEFINE_string(
    "upload",
    "",
    "Where to upload the preset: hf://owner/name or kaggle://owner/model/keras/variation. If not set, it is not "
    "uploaded.",
)
tfdml_flags.define_import_modules()


def main():
    from tfdml.files.checked import new_folder
    from tfdml.serving.presets import share_run

    values = flags.FLAGS
    new_folder(values.out, "the preset", "--out")
    about = {"license": values.license or None, "changes": command.given("import_modules")}
    share_run(values.run_dir, values.which, values.out, upload=values.upload, **about)
    print(f"Saved the preset to {values.out}. Load it with tfdml.from_preset({values.out!r}).")
    if values.upload:
        print(f"Uploaded the preset. Load it with tfdml.from_preset({values.upload!r}).")


if __name__ == "__main__":
    command.run(main)
