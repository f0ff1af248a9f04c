"""A user's module, as `--import_modules` takes it: a loss of their own."""

import tfdml


@tfdml.registry.register("loss", "own_triplet")
class OwnTriplet(tfdml.losses.Triplet):
    """Triplets, under another name; `tfdml.Single` is there as in any program."""

    method = tfdml.Single
