"""The sections of a page that name what was run, what to try next, and how to run it again."""

from tfdml.reporting.page.elements import element, joined, pairs, table

# Words for names of flags, where another word says more.
WORDS = {"embedding_size": "Dimensions"}


def about_run(main, changed):
    """Returns what was run.

    Args:
        main: name of a flag to its value, of those that say most.
        changed: name of a flag to its value and its default, of those that are not at their default.
    """
    named = {WORDS.get(name, name.capitalize()): value for name, value in main.items()}
    rows = [[f"--{name}", _code(value), _code(default)] for name, (value, default) in changed.items()]
    caption = "Flags that are not at their default"
    return joined(pairs(named), table(["Flag", "Value", "Default"], rows, caption, class_="flags") if rows else None)


def what_next(steps):
    """Returns a box with what a user can do next.

    Args:
        steps: sentence to a command that does it, or None.
    """
    listed = [
        element(
            "li", element("p", sentence), element("pre", element("code", command), tabindex="0") if command else None
        )
        for sentence, command in steps.items()
    ]
    return element("ul", *listed, class_="next") if listed else None


def reproduce(command, environment):
    """Returns how to train the same again, and by what the report was made.

    Args:
        command: the command line.
        environment: name to version.
    """
    again = element("p", "This command trains the same run again in another folder:")
    return joined(again, element("pre", element("code", command), tabindex="0"), pairs(environment))


def _code(value):
    return element("code", value) if value else "(empty)"
