"""What to write instead of a flag that other programs have, and of a value that a flag cannot have."""

import re

RATE = "--optimizer='adam(learning_rate=0.001)'"
# Its name to the flag in its place.
WRITE = {
    "arch": "--backbone",
    "batch_size": "--sampler='pxk(classes=32, per_class=4)', which is a batch of 32 x 4 images",
    "data": "--data_dir",
    "embedding_dim": "--embedding_size",
    "epoch": "--epochs",
    "gpus": "--devices=gpu:2",
    "learning_rate": RATE,
    "lr": RATE,
    "margin": "--loss='triplet(margin=0.2)'",
    "miner": "--loss=\"triplet(mining='hard')\"",
    "model": "--backbone",
    "num_epochs": "--epochs",
    "output_dir": "--run_dir",
    "out": "--run_dir",
    "pretrained": "--initial_weights=imagenet",
    "resume": "--run_dir, the folder of the run, with its flags",
    "top_k": "--k",
    "weight_decay": "--optimizer='adamw(weight_decay=0.01)'",
    "weights": "--initial_weights",
}


def in_place_of(name, known):
    """Returns a sentence that names the flag to write in place of an unknown one; None if there is none.

    Args:
        name: name of the unknown flag.
        known: names of the flags that the command has.
    """
    written = WRITE.get(name, "")
    flag = written.removeprefix("--").partition("=")[0].partition(",")[0]
    return f"Unknown flag --{name}. Write {written}." if flag in known else None


def told_of_value(message):
    """Returns absl's message about the value of a flag, or if it is in Python's words, what the flag expects.

    Args:
        message: such as `flag --steps=1.5: invalid literal for int() with base 10: '1.5'`.
    """
    found = re.fullmatch(r"flag --(\w+)=(.*?): (.*)", message, re.DOTALL)
    if not found:
        return message
    name, value, reason = found.groups()
    received = f"Received: --{name}={value}."
    if reason.startswith("invalid literal for int()"):
        return f"--{name} must be an integer. {received}"
    if reason.startswith("could not convert string to float"):
        return f"--{name} must be a number. {received}"
    if "Non-boolean argument" in reason:
        return f"--{name} must be true or false. {received} Use --{name} or --no{name}."
    return message
