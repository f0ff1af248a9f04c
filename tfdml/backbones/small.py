"""A small convolutional network for training on a CPU."""

from pathlib import Path
from typing import Annotated, Unpack

from keras import layers

from tfdml.backbones.backbone import Backbone
from tfdml.backbones.inception import convolution
from tfdml.registry import register
from tfdml.registry.arguments import Count, ModelArguments, integer

# `python -m benchmarks.studies.pretrain_toycars` writes this file. Its configuration and checksum are next to it.
TOYCARS = Path(__file__).parent / "weights" / "small_toycars.weights.h5"


@register("backbone", "small")
class Small(Backbone):
    """Small convolutional network for images of 24 to 96 pixels, which trains quickly on a CPU.

    Use it for experiments and tests. Each stage has two 3 × 3 convolutions with batch normalization, half the
    resolution of the previous stage, and twice its channels. The endpoints are `stage1` to the last stage. The weights
    `--initial_weights=toycars` are for a width of 16 and up to four stages.

    Args:
        width: Integer. Number of channels in the first stage. Defaults to `24`.
        stages: Integer. Number of stages, from 1 to 8. Defaults to `4`.
        **kwargs: `name`, `trainable` and `dtype` of `keras.Model`.

    Example:

    ```python
    backbone = tfdml.backbones.Small(width=16)
    backbone(np.random.uniform(-2, 2, (2, 48, 48, 3))).shape  # (2, 6, 6, 128)
    ```
    """

    shipped_weights = {"toycars": TOYCARS}

    def __init__(
        self, width: Count = 24, stages: Annotated[int, integer(1, at_most=8)] = 4, **kwargs: Unpack[ModelArguments]
    ):
        inputs = layers.Input((None, None, 3), name="images")
        endpoints, features = {}, inputs
        for stage in range(stages):
            if stage:
                features = layers.MaxPooling2D(name=f"stage{stage + 1}_pool")(features)
            for conv in (1, 2):
                name = f"stage{stage + 1}_conv{conv}"
                features = convolution(features, width * 2**stage, 3, name=name, norm_epsilon=1e-3)
            endpoints[f"stage{stage + 1}"] = features
        arguments = {"mean": (127.5,) * 3, "std": (63.75,) * 3, "image_size": 48}
        super().__init__(inputs, endpoints, **arguments, **{"name": "small", **kwargs})
        self.width = width
        self.stages = stages

    def get_config(self):
        return {**super().get_config(), "width": self.width, "stages": self.stages}
