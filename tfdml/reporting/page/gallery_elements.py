"""Queries with their nearest neighbors: the data that the page's script shows, and the elements that it fills."""

import numpy as np
from PIL import Image

from tfdml.reporting.page.elements import Html, element, joined
from tfdml.reporting.page.images import SIDES, jpeg, jpeg_within

# Bytes of all images of a gallery, and the longest side of one in pixels.
IMAGES, LARGEST = 9_000_000, 512
# Queries of each kind at most, and with images so large that nobody sees more in larger ones.
MOST, LARGE = 40, 320
# So many there are of images that must then be smaller; fewer only if the smallest would be too many bytes.
FEWEST = 8


def queries_within(images, shown):
    """Returns how many queries of each kind to show, so that their images are large and the page is not.

    Args:
        images: a sample of the images, uint8 `[H, W, 3]` each.
        shown: number of images that one query of each kind shows, all kinds together.
    """
    pictures = [Image.fromarray(pixels) for pixels in images]
    large, small = (
        int(IMAGES / shown / np.quantile([len(jpeg(picture, side)) for picture in pictures], 0.9))
        for side in (LARGE, SIDES[-1])
    )
    return max(min(max(large, FEWEST), small, MOST), 1)


def gallery_data(chosen, found, closeness, image, about, places=None, notes=None):
    """Returns the gallery as plain data.

    Args:
        chosen: kind of queries, such as `Worst`, to their rows.
        found: name of a model to row of a query to a list of `(row, closeness, right)`, its neighbors, nearest first.
        closeness: what the numbers are, such as `cosine similarity`.
        image: function of a row that returns its image, uint8 `[H, W, 3]`.
        about: function of a row that returns its name and that of its class.
        places: `Places` of the first model; None if it cannot tell what makes images similar.
        notes: row of a query to words about it, which are shown instead of its kinds; None: there are none.
    """
    queries = list(dict.fromkeys(int(row) for rows in chosen.values() for row in rows))
    neighbors = (row for of_model in found.values() for query in queries for row, *_ in of_model[query])
    shown = sorted({*queries, *neighbors})
    return {
        "kinds": list(chosen),
        "models": list(found),
        "closeness": closeness,
        "images": _images(shown, image, about, places),
        "queries": [
            {
                "row": query,
                "kinds": [kind for kind, rows in chosen.items() if query in rows],
                "found": [[list(each) for each in of_model[query]] for of_model in found.values()],
                **({"places": places.of_query(query)} if places else {}),
                **({"note": notes[query]} if notes else {}),
            }
            for query in queries
        ],
        **({"grid": places.grid()} if places else {}),
    }


def neighbors_of(retrieved, rows, embeddings, distance):
    """Returns row of a query to a list of `(row, closeness, right)`, as `gallery_data` takes it.

    Args:
        retrieved: `tfdml.evaluation.queries.Retrieved`.
        rows: rows of queries, all of which are in `retrieved`.
        embeddings: `[N, d]`, by which was searched.
        distance: `cosine` or `euclidean`.
    """
    found = {}
    for query, place in zip(rows, np.searchsorted(retrieved.queries, rows), strict=True):
        near = retrieved.rows[place] >= 0
        neighbors, right = retrieved.rows[place][near], retrieved.right[place][near]
        close = _closeness(embeddings[query], embeddings[neighbors], distance)
        found[int(query)] = list(zip(neighbors.tolist(), close.round(4).tolist(), right.tolist(), strict=True))
    return found


def gallery(data):
    """Returns the elements that the script fills, and what chooses among the queries."""
    classes = sorted({data["images"][query["row"]]["class"] for query in data["queries"]})
    several = len(data["models"]) > 1
    right, wrong = ("right for all", "wrong for all") if several else ("right", "wrong")
    choices = [
        _choice("kind", "Queries", {"": "all", **{kind: kind for kind in data["kinds"]}}),
        _choice("class", "Class", {"": "all", **{name: name for name in classes}}),
        _choice("right", "Nearest neighbor", {"": "right or wrong", "right": right, "wrong": wrong}),
    ]
    of_which = f", for {data['models'][0]}" if several else ""
    explained = element(
        "p",
        "Each row shows a query and its nearest neighbors. A neighbor of the query’s class has a solid frame and ✓, "
        "another one a dashed frame and ✗. Choose a row to see the images large"
        + (f", and which of their places make them similar{of_which}." if "grid" in data else "."),
    )
    return joined(
        explained,
        element("form", *choices, element("output", id="count", aria_live="polite"), class_="choices", id="choices"),
        element("noscript", element("p", "Without JavaScript the queries are not shown.")),
        element("ul", id="queries", class_="queries"),
        element("button", "Show more queries", type="button", id="more", class_="more", hidden=True),
        _dialog("grid" in data),
    )


def _dialog(explains):
    buttons = [
        element("button", "Previous", type="button", id="previous"),
        element("button", "Next", type="button", id="next"),
        element("button", "Close", type="button", id="close"),
    ]
    title = element("h3", id="shown-title", tabindex="-1", autofocus=True)
    why = element("output", id="why", aria_live="polite") if explains else None
    head = element("div", title, element("div", *buttons), why, class_="bar")
    return element("dialog", head, element("div", id="shown"), id="dialog", aria_labelledby="shown-title")


def _choice(name, title, options):
    entries = [element("option", text, value=value) for value, text in options.items()]
    return element("label", element("span", title), Html(" "), element("select", *entries, name=name))


def _images(rows, image, about, places):
    share, found = IMAGES // max(len(rows), 1), {}
    for row in rows:
        name, of_class = about(row)
        pixels = image(row)
        source = jpeg_within(Image.fromarray(pixels), share, LARGEST)
        seen = {"seen": places.seen_of(pixels)} if places else {}
        found[row] = {"src": source, "name": name, "class": of_class, **seen}
    return found


def _closeness(query, neighbors, distance):
    """Returns the cosine similarities `[k]` of a query's neighbors, or their Euclidean distances."""
    query, neighbors = np.asarray(query, np.float64), np.asarray(neighbors, np.float64)
    if distance == "euclidean":
        return np.linalg.norm(neighbors - query, axis=1)
    lengths = np.linalg.norm(neighbors, axis=1) * np.linalg.norm(query)
    return neighbors @ query / np.where(lengths > 0, lengths, 1.0)
