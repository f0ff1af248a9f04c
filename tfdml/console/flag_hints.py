"""What to write in place of a flag that other programs have, and a command of tfdml has not."""

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
