"""Named places in the graph of a network, at which methods divide it or read its features."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import keras

from tfdml.layers.blocks import stages
from tfdml.registry.arguments import Tensor

# The deepest stage at which ensembles divide a network: 1 / 16 of the image's side, about the middle of most networks.
DEEPEST_BRANCH = 4


class Endpoints:
    """Mixin for functional models from images to one tensor, with `input`, `output` and `name`.

    A network has the endpoints that it declares and the stages of its graph. By default, methods choose among the
    declared endpoints, or among the stages if the network declares only its output.
    """

    # Declared endpoints, name to Keras tensor, from shallow to deep. The last one is the output.
    endpoints = {}
    # Defaults of methods that differ from `method_default` for this network.
    method_defaults = {}

    @cached_property
    def stage_endpoints(self) -> Mapping[str, Tensor]:
        """The stages of the graph, name to Keras tensor, from shallow to deep: see `tfdml.layers.blocks.stages`.

        The dictionary is empty if the network itself declares endpoints with such names, as `Small` and `ResNet` do.
        """
        declares = any(name.startswith("stage") for name in self.endpoints)
        return {} if declares else stages(self.input, self.output)

    def method_default(self, what: Literal["branch", "attention_depth", "levels"]) -> Any:
        """Returns the default of a method's argument for this network.

        - `branch`, the endpoint at which ensembles divide: the endpoint in the middle. Among stages, it is `stage4`, or
          the deepest stage before it that has weights after it and no path around it.
        - `attention_depth`, the number of blocks after the branch that attention copies: 1.
        - `levels`, the endpoints that `multilevel` embeds, from shallow to deep: the last three.
        """
        names = list(self.endpoints)
        stages = [] if len(names) > 1 else self._stages_and_output()
        if len(names) < 2 and len(stages) < 2:
            raise ValueError(
                f"{self.name} has one endpoint, {names[0]!r}, and no stages before it. This method needs at least two "
                "endpoints. Set more of them, for example with "
                "keras_applications(name='ResNet50', endpoints=('conv3_block4_out',))."
            )
        if what in self.method_defaults:
            return self.method_defaults[what]
        if what == "attention_depth":
            return 1
        if what == "levels":
            if stages and stages[-1] not in self.stage_endpoints:
                # An output without positions replaces the stage that it is computed from.
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
            raise ValueError(
                f"{self.name} cannot be split at {endpoint!r}, because another path leads around it. Use an endpoint "
                "that all paths lead through."
            ) from None

    def taps(self, endpoints: Sequence[str]) -> keras.Model:
        """Returns a Keras model from images to the list of the named endpoints, which shares the network's layers."""
        return keras.Model(self.input, [self._tensor(name) for name in endpoints], name=f"{self.name}_taps")

    def blocks_after(self, endpoint: str, count: int) -> keras.Model:
        """Returns a Keras model of the `count` blocks after an endpoint, which shares the network's layers.

        A block ends at a declared endpoint. If `endpoint` is a stage, it ends at a stage or at the output instead.
        Poolings are not blocks.
        """
        start = self._tensor(endpoint)
        names = list(self.endpoints) if endpoint in self.endpoints else self._stages_and_output()
        blocks = [name for name in names[names.index(endpoint) + 1 :] if not name.startswith("pool")]
        if not 1 <= count <= len(blocks):
            raise ValueError(
                f"The number of blocks after {endpoint!r} of {self.name} must be from 1 to {len(blocks)}. "
                f"Received: {count}."
            )
        return keras.Model(start, self._tensor(blocks[count - 1]), name=f"{self.name}_blocks")

    def _tensor(self, endpoint):
        # Stages take time to find, so the declared endpoints come first.
        for known in (self.endpoints, self.stage_endpoints):
            if endpoint in known:
                return known[endpoint]
        known = [*self.stage_endpoints, *self.endpoints]
        raise ValueError(f"{self.name} has no endpoint {endpoint!r}. Use one of: {', '.join(known)}.")

    def _stages_and_output(self):
        """Returns the names of the stages, and the name of the output unless it is the last stage."""
        ends = any(features is self.output for features in self.stage_endpoints.values())
        return [*self.stage_endpoints, *([] if ends else list(self.endpoints)[-1:])]

    def _branch(self):
        for name in reversed(self.stage_endpoints):
            if int(name.removeprefix("stage")) <= DEEPEST_BRANCH and self._learns_behind(name):
                return name
        raise ValueError(
            f"{self.name} has no stage that all paths lead through and that has weights after it. Its stages are: "
            f"{', '.join(self.stage_endpoints)}. Set branch to an endpoint."
        )

    def _learns_behind(self, endpoint):
        try:
            return bool(self.split_at(endpoint)[1].weights)
        except ValueError:
            # A path leads around the endpoint.
            return False
