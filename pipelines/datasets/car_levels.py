"""Makes and bodies of Cars196, from the names of its classes."""

# Makes of two words; of others the first word is the make.
MAKES = ("AM General", "Aston Martin", "Land Rover")
# The last word before the year, where it is a body; crew, club and other cabs are pickups.
BODIES = ("Sedan", "SUV", "Coupe", "Convertible", "Hatchback", "Wagon", "Minivan", "Van", "Cab")
PICKUP, OTHER = "Pickup", "Other"


def car_levels(names):
    """Returns the levels of classes: make, body and model, which is the class; for names such as "Audi S4 Sedan 2012".

    Args:
        names: class number to name.
    """
    return {
        "make": {label: _make(name) for label, name in names.items()},
        "body": {label: _body(name) for label, name in names.items()},
        "model": dict(names),
    }


def _make(name):
    return next((make for make in MAKES if name.startswith(make)), name.partition(" ")[0])


def _body(name):
    words = name.split()
    word = words[-2] if len(words) > 1 else ""
    return PICKUP if word == "Cab" else word if word in BODIES else OTHER
