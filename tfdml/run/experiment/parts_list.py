"""The list of all parts that a run can have."""

from tfdml import registry


def print_parts(modules):
    """Prints the parts of every kind, with their arguments.

    Args:
        modules: the user's own, which register parts.
    """
    registry.import_modules(modules)
    for kind in registry.ROOMS:
        print(f"{kind}:")
        for line in registry.describe(kind):
            print(f"  {line}")
