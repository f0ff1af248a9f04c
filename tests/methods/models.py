"""Models for the tests of methods."""

import tfdml


def small_model(**arguments):
    return tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=16, **arguments)
