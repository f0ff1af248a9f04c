"""The settings that a search tries, those of docs/choosing.md."""

import itertools
import random

from tfdml.console.flags import RECIPE

# Proxies begin at random, and have to learn faster than a pretrained network.
FASTER = {"lr_multipliers": "loss=100"}
# Flag to its alternatives, each with the other flags that it needs.
SPACE = {
    "loss": [
        {"loss": "n_pair(scale=20.0)"},
        {"loss": "triplet(margin=0.1)"},
        {"loss": "multi_similarity"},
        {"loss": "ranked_list(margin=0.4, negative_temperature=20.0)"},
        {"loss": "proxy_nca(scale=16.0)", **FASTER},
        {"loss": "soft_triple(per_class=2, scale=10.0)", **FASTER},
    ],
    "optimizer": [{"optimizer": f"adam(learning_rate={rate})"} for rate in ("0.0001", "0.0003", "0.001")],
    "method": [{"method": method} for method in (RECIPE["method"], "single")],
    "image_size": [{"image_size": side} for side in (96, 128, 160)],
    "train_transform": [
        {"train_transform": f"random_resized_crop(area=({smallest}, 1.0))|flip"} for smallest in (0.3, 0.5, 0.8)
    ],
}


def draw(first, fixed, seed, space=None):
    """Returns what trials change in the flags of the first one, in random order, each once.

    Args:
        first: flags of the first trial, `{name: "--name=value"}`.
        fixed: names of flags that stay as they are.
        seed: decides the order.
        space: as `SPACE`; None: that.

    Returns:
        List of `{name: "--name=value"}`.
    """
    choices = [each for name, each in (space or SPACE).items() if name not in fixed]
    found = {}
    for chosen in itertools.product(*choices):
        flags = {name: f"--{name}={value}" for one in chosen for name, value in one.items() if name not in fixed}
        changes = {name: flag for name, flag in flags.items() if flag != first[name]}
        found[tuple(changes.items())] = changes
    drawn = [changes for changes in found.values() if changes]
    random.Random(seed).shuffle(drawn)
    return drawn
