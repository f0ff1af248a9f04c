"""Markdown tables."""


def markdown(heads, rows):
    """A Markdown table of text."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))
