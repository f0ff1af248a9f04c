"""Formats Markdown tables."""


def markdown(heads, rows):
    """Returns a Markdown table of texts."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))
