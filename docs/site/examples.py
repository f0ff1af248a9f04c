"""Creates the pages of the examples from their notebooks, with text, code and outputs."""

import base64

from docs import notebooks

FOLDER = "examples"
ENDINGS = {"image/png": "png", "image/jpeg": "jpg"}


def pages():
    """Returns `{page: text}` and `{picture: content}`."""
    texts, pictures = {}, {}
    for script in notebooks.scripts():
        cells = notebooks.cells_of(script.with_suffix(".ipynb"))
        shown = _shown(cells, script.stem)
        pictures |= {f"{FOLDER}/{name}": content for name, content in shown.items()}
        texts[f"{FOLDER}/{script.stem}.md"] = page(script, cells, list(shown))
    return texts, pictures


def page(script, cells, pictures):
    """Returns the text of a page.

    Args:
        script: Path of the example.
        cells: Cells of its notebook.
        pictures: File names of the pictures in the cells, in their order.
    """
    (_, title), name = notebooks.cells(script)[0], script.stem
    links, colab = f"[notebook]({name}.ipynb) · [script]({name}.py)", notebooks.colab(name)
    links = f"[Open in Colab]({colab}) · {links}" if colab else links
    pictures = iter(pictures)
    # The cells after the title and the installation.
    return "\n\n".join([title, links, *(part for cell in cells[2:] for part in _parts(cell, pictures))]) + "\n"


def _parts(cell, pictures):
    source = "".join(cell["source"])
    yield source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
    for output in cell.get("outputs", ()):
        if "text" in output:
            yield f"```text\n{''.join(output['text']).strip()}\n```"
        else:
            yield f"![What the code above shows.]({next(pictures)})"


def _shown(cells, name):
    """Returns a dictionary from the file name of each picture to its content."""
    data = [output["data"] for cell in cells for output in cell.get("outputs", ()) if "data" in output]
    found = [(ENDINGS[kind], each[kind]) for each in data for kind in ENDINGS if kind in each]
    return {f"{name}_{number}.{ending}": base64.b64decode(text) for number, (ending, text) in enumerate(found, 1)}
