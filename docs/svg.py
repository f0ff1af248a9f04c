"""The frame of the pictures that scripts draw for the pages."""


def document(width, height, label, style, lines):
    """Returns an SVG picture with a label for screen readers, a style sheet and its elements."""
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
    return "\n".join([start, f"<style>\n{style}\n</style>", *lines, "</svg>"]) + "\n"
