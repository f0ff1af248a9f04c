"""Converts published weights for Keras: `python -m tfdml.convert_weights --source=... --input=... --output=...`."""

from pathlib import Path

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_string("source", "", "Publisher and network of the weights, such as torchvision_resnet50.")
flags.DEFINE_string("input", "", "Published file to convert, .pth, .safetensors or .caffemodel.")
flags.DEFINE_string("output", "", "File to write, ending in .weights.h5, or a new folder for transformers.")
tfdml_flags.define_debug()


def main():
    from tfdml.backbones.published_weights import SOURCES
    from tfdml.backbones.transformer_weights import TRANSFORMERS

    source, sources = flags.FLAGS.source, {**SOURCES, **TRANSFORMERS}
    if source not in sources:
        raise ValueError(f"--source={source} is unknown. Expected one of: {', '.join(sources)}.")
    if not flags.FLAGS.input:
        raise ValueError(f"--input is missing. Set it to the file that is published at {sources[source].url}.")
    make = _write_preset if source in TRANSFORMERS else _write_weights
    count, use = make(source, Path(flags.FLAGS.output))
    print(f"Wrote {count} parameters. Use {use}")


def _write_weights(source, output):
    from tfdml.backbones.published_weights import SOURCES, convert_file

    if not output.name.endswith(".weights.h5"):
        raise ValueError(f"--output must end in .weights.h5. Received: --output={output}.")
    command.check_file("output")
    count = convert_file(source, flags.FLAGS.input, output)
    return count, f"--backbone='{SOURCES[source].backbone}' --initial_weights={output}"


def _write_preset(source, output):
    from tfdml.backbones.transformer_weights import write_preset

    if not flags.FLAGS.output or output.exists():
        raise ValueError(f"--output must be a folder that does not exist. Received: --output={flags.FLAGS.output}.")
    command.check_file("output")
    return write_preset(source, flags.FLAGS.input, output), f"--backbone=\"keras_hub(preset='{output}')\""


if __name__ == "__main__":
    command.run(main)
