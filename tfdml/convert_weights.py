"""Converts published weights for Keras: `python -m tfdml.convert_weights --source=... --input=... --output=...`."""

from pathlib import Path

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_string("source", "", "Network and publisher of the weights, such as torchvision_resnet50.")
flags.DEFINE_string("input", "", "The published file: .pth, .safetensors or .caffemodel.")
flags.DEFINE_string("output", "", "File to write; its name ends with .weights.h5.")
tfdml_flags.define_debug()


def main():
    from tfdml.backbones.weights import SOURCES, convert_file

    source, output = flags.FLAGS.source, Path(flags.FLAGS.output)
    if source not in SOURCES:
        raise ValueError(f"Unknown --source={source}. Known: {', '.join(SOURCES)}.")
    if not flags.FLAGS.input:
        raise ValueError(f"--input is missing: the file published at {SOURCES[source].url}.")
    if not output.name.endswith(".weights.h5"):
        raise ValueError(f"Expected --output to end with .weights.h5, received --output={output}.")
    command.check_file("output")
    count = convert_file(source, flags.FLAGS.input, output)
    print(f"Wrote {count} parameters. Use --backbone='{SOURCES[source].backbone}' --initial_weights={output}")


if __name__ == "__main__":
    command.run(main)
