"""Places in the graph of a network, by name: where methods divide it, and what they look at."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import keras

from tfdml.layers.blocks import stages
from tfdml.registry.arguments import Tensor

# Where ensembles divide a network at the deepest: at a sixteenth of the image's side, the middle of most.
DEEPEST_BRANCH = 4


class Endpoints:
    """Mixin of functional models from images to one tensor, with `input`, `output` and `name`.

    Its endpoints are those that it declares, and the stages of its graph. Methods choose among the declared ones by
    default, or among the stages if it declares only its output.
    """

    # Name to Keras tensor of the declared ones, from shallow to deep; the last is the output.
    endpoints = {}
    # Defaults of methods for this network, where they differ from those of `method_default`.
    method_defaults = {}

    @cached_property
    def stage_endpoints(self) -> Mapping[str, Tensor]:
        """Name to Keras tensor of the stages of the graph, from shallow to deep: see `tfdml.layers.blocks.stages`.

        There are none if it declares endpoints of such names itself, as `Small` and `ResNet` do.
        """
        declares = any(name.startswith("stage") for name in self.endpoints)
        return {} if declares else stages(self.input, self.output)

    def method_default(self, what: Literal["branch", "attention_depth", "levels"]) -> Any:
        """Returns the default of a method's argument for this network.

        That of `branch`, the endpoint where ensembles divide, is the one in the middle; of `attention_depth`, the
        number of blocks after the branch that attention copies, 1; and of `levels`, the endpoints that `multilevel`
        embeds, from shallow to deep, the last three. Among stages the branch is `stage4`, or the deepest before it that
        has something to learn behind it and no path around it.
        """
        names = list(self.endpoints)
        stages = [] if len(names) > 1 else self._stages_and_output()
        if len(names) < 2 and len(stages) < 2:
            raise ValueError(
                f"{self.name} has one endpoint, {names[0]!r}, and no stages before it; this method needs two or more. "
                "Give the backbone more, such as keras_applications(name='ResNet50', endpoints=('conv3_block4_out',))."
            )
        if what in self.method_defaults:
            return self.method_defaults[what]
        if what == "attention_depth":
            return 1
        if what == "levels":
            if stages and stages[-1] not in self.stage_endpoints:
                # An output without positions stands for the stage that it is made of.
                return (*stages[-4:-2], stages[-1])
            return tuple((stages or names)[-3:])
        return names[(len(names) - 1) // 2] if not stages else self._branch()

    def split_at(self, endpoint: str) -> tuple[keras.Model, keras.Model]:
        """Splits the network at an endpoint into two Keras models, trunk and tail, which share its layers."""
        cut = self._tensor(endpoint)
        trunk = keras.Model(self.input, cut, name=f"{self.name}_trunk")
        if cut is self.output:
            # Keras cannot create a model without layers.
            cut = keras.layers.Input(cut.shape[1:], dtype=cut.dtype)
            return trunk, keras.Model(cut, keras.layers.Identity()(cut), name=f"{self.name}_tail")
        try:
            return trunk, keras.Model(cut, self.output, name=f"{self.name}_tail")
        except ValueError:
            raise ValueError(f"{self.name} cannot be split at {endpoint!r}: another path leads around it.") from None

    def taps(self, endpoints: Sequence[str]) -> keras.Model:
        """Returns a Keras model from images to the list of the named endpoints, which shares the network's layers."""
        return keras.Model(self.input, [self._tensor(name) for name in endpoints], name=f"{self.name}_taps")

    def blocks_after(self, endpoint: str, count: int) -> keras.Model:
        """Returns a Keras model of the `count` blocks after an endpoint, which shares the network's layers.

        A block ends at a declared endpoint, or after a stage at a stage or the output; poolings are not blocks.
        """
        start = self._tensor(endpoint)
        names = list(self.endpoints) if endpoint in self.endpoints else self._stages_and_output()
        blocks = [name for name in names[names.index(endpoint) + 1 :] if not name.startswith("pool")]
        if not 1 <= count <= len(blocks):
            raise ValueError(
                f"Expected from 1 to {len(blocks)} blocks after {endpoint!r} of {self.name}, received {count}."
            )
        return keras.Model(start, self._tensor(blocks[count - 1]), name=f"{self.name}_blocks")

    def _tensor(self, endpoint):
        # Stages are found only when they are asked for.
        for known in (self.endpoints, self.stage_endpoints):
            if endpoint in known:
                return known[endpoint]
        known = [*self.stage_endpoints, *self.endpoints]
        raise ValueError(f"Unknown endpoint {endpoint!r} of {self.name}. Known: {', '.join(known)}.")

    def _stages_and_output(self):
        """Names of the stages, and of the output unless it is the last of them."""
        ends = any(features is self.output for features in self.stage_endpoints.values())
        return [*self.stage_endpoints, *([] if ends else list(self.endpoints)[-1:])]

    def _branch(self):
        for name in reversed(self.stage_endpoints):
            if int(name.removeprefix("stage")) <= DEEPEST_BRANCH and self._learns_behind(name):
                return name
        raise ValueError(
            f"Expected a stage of {self.name} that all paths lead through, with weights behind it; its stages: "
            f"{', '.join(self.stage_endpoints)}. Name an endpoint as branch."
        )

    def _learns_behind(self, endpoint):
        try:
            return bool(self.split_at(endpoint)[1].weights)
        except ValueError:
            # A path leads around it.
            return False
