"""Model card of an exported model: `README.md` for people and `metadata.json` for programs."""

from pathlib import Path

from pipelines.captions import TEMPLATE
from tfdml.files.checked import damaged, read_record, write_atomically, write_record
from tfdml.registry.arguments import sides_of
from tfdml.run.experiment.threshold import ENTRIES, for_people

METADATA, README = "metadata.json", "README.md"
# Version of the card's format. Raise it for changes that readers must know about.
VERSION = 1
MEASURES = {"cosine": "cosine similarity", "euclidean": "Euclidean distance"}


def write_card(path, facts):
    """Writes the card into a SavedModel's folder, from facts with the keys that `readme` and `signatures` read."""
    facts = {"version": VERSION, **facts, "signatures": signatures(facts)}
    # Write atomically, because an index's model may get another threshold while others read its card.
    write_record(Path(path) / METADATA, facts, indent=2)
    write_atomically(Path(path) / README, readme(facts).encode())


def read_card(path):
    """Returns the facts of the card in a SavedModel's folder, or an empty dictionary without a card."""
    file = Path(path) / METADATA
    if not file.is_file():
        return {}
    advice = "Export the model again."
    facts = read_record(file, {}, advice)
    if facts.get("version") != VERSION:
        raise ValueError(f"{file} was written by another version of tfdml. {advice}")
    embedding = facts.get("embedding")
    if not isinstance(embedding, dict) or str(embedding.get("metric")) not in MEASURES:
        raise damaged(file, "embedding is missing or wrong", advice)
    return facts


def templates_of(path):
    """Returns the templates of texts about a class, separated by `|`, from the card in a SavedModel's folder."""
    return read_card(path).get("templates", TEMPLATE)


def readme(facts):
    """Returns the text of README.md."""
    what, thresholds = "features of images" if "dims" in facts["images"] else "images", {}
    for entry in ENTRIES.values():
        if fitted := facts.get(entry):
            value = for_people(fitted["threshold"], fitted["distance"])
            how = "see `metadata.json` for the pairs that it was fitted on"
            thresholds[entry.replace("_", " ")] = f"{value:.4f}; {how}"
    rows = {
        **rows_of_network(facts),
        **rows_of_embedding(facts),
        "projection": facts["embedding"]["projection"] or "none",
        "files that cannot be read": "are marked in the output `valid`" if facts["tolerant"] else "cause an error",
        **({"`model.tflite`": f"`embed_images` for LiteRT, weights in {facts['lite']}"} if facts["lite"] else {}),
        **({"`model.onnx`": "`embed_images` for ONNX Runtime"} if facts["onnx"] else {}),
        **thresholds,
        **({"templates of texts": f"`{facts['templates']}`"} if "templates" in facts else {}),
        "SHA-256 of the model": f"`{facts['sha256']}`",
        "versions": ", ".join(f"{name} {version}" for name, version in facts["versions"].items()),
    }
    parts = [
        "# Model card",
        f"This SavedModel maps {what} to embeddings. Similar images have similar embeddings. tfdml exported it, and it "
        "only needs TensorFlow to run. `metadata.json` contains the same information for programs.",
        table_of(rows),
        *scores_of(facts),
        "\n".join(
            ["## Signatures", "", "| name | inputs | outputs |", "|---|---|---|"]
            + [
                f"| `{name}` | {_list(each['inputs'])} | {_list(each['outputs'])} |"
                for name, each in facts["signatures"].items()
            ]
        ),
    ]
    return "\n\n".join(parts) + "\n"


def rows_of_network(facts):
    """Returns table rows, as a dictionary, about the network and its training data."""
    return {
        "method": f"`{facts['method']}`",
        "backbone": f"`{facts['backbone']}`",
        "head": f"`{facts['head']}`",
        "initial weights": facts["weights"],
        "license of the initial weights": facts.get("weights_license", facts.get("weights_licence")),
        "trained on": _trained_on(facts["data"]),
    }


def rows_of_embedding(facts):
    """Returns table rows, as a dictionary, about the model's inputs and its embedding."""
    embedding, images = facts["embedding"], facts["images"]
    if "dims" in images:
        rows = {"features instead of images": f"{images['dims']} dimensions"}
    else:
        height, width = sides_of(images["image_size"])
        rows = {"images": f"{height} × {width} pixels by `{images['transform']}`"}
    rows = {
        "embedding": f"{embedding['dimension']} dimensions, compared by {MEASURES[embedding['metric']]}",
        "learners": embedding["learners"],
        **rows,
    }
    texts = facts.get("texts", {})
    if temperature := texts.get("temperature"):
        rows["temperature"] = f"{temperature:.4g}, by which the loss divides the similarities of images and texts"
        if texts["bias"] is not None:
            rows["bias"] = f"{texts['bias']:.4g}, which it adds to the result"
    return rows


def table_of(rows):
    """Returns a Markdown table of the rows in a dictionary."""
    cells = {name: str(value).replace("|", "\\|") for name, value in rows.items()}
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {cell} |" for name, cell in cells.items())])


def signatures(facts):
    """Returns the signatures of the SavedModel: name to `{"inputs": {name: type and shape}, "outputs": ...}`."""
    embedding, images = facts["embedding"], facts["images"]
    found = {"embedding": f"float32 [B, {embedding['dimension']}]"}
    learners = {"embeddings": f"float32 [B, {embedding['learners']}, {embedding['learner_dimension']}]"}
    if "dims" in images:
        vectors = {"features": f"float32 [B, {images['dims']}]"}
        several = {"embed_learners": {"inputs": vectors, "outputs": learners}} if embedding["learners"] > 1 else {}
        return {"serving_default": {"inputs": vectors, "outputs": found}, **several}
    image = f"{', '.join(map(str, sides_of(images['image_size'])))}, 3"
    files, valid = {"image_bytes": "string [B]"}, {"valid": "bool [B]"} if facts["tolerant"] else {}
    several = {"embed_learners": {"inputs": files, "outputs": {**learners, **valid}}}
    of_texts = {}
    if texts := facts.get("texts"):
        of_texts["embed_tokens"] = {"inputs": {"tokens": f"int32 [B, {texts['tokens']}]"}, "outputs": found}
        if texts["strings"]:
            of_texts["embed_text"] = {"inputs": {"text": "string [B]"}, "outputs": found}
    return {
        "serving_default": {"inputs": files, "outputs": {**found, **valid}},
        "embed_images": {"inputs": {"images": f"float32 [B, {image}]"}, "outputs": found},
        "read_image": {"inputs": {"image_bytes": "string []"}, "outputs": {"image": f"float32 [{image}]"}},
        **(several if embedding["learners"] > 1 else {}),
        **of_texts,
    }


def _trained_on(data):
    if data["dataset"]:
        return f"`{data['dataset']}`"
    fitted = f"; the projection was fitted on `{data['projected']}`" if data["projected"] else ""
    return f"not trained on any dataset: the backbone has its initial weights{fitted}"


def scores_of(facts):
    """Returns the card's section on scores and their intervals, or nothing without scores."""
    scores, data = facts["scores"], facts["data"]
    if not scores:
        return []
    selected = data["selected_on"]
    honest = (
        "The model is the best of several evaluations on these same images, as is usual in papers, so the scores "
        "are optimistic."
        if selected == "test"
        else "The model was selected on other classes."
        if selected
        else "No images were used to select the model."
    )
    intervals = facts.get("intervals", {})
    ends = {name: f" (95% CI: {low:.4f} to {high:.4f})" for name, (low, high) in intervals.items()}
    numbers = {name: value for name, value in scores.items() if isinstance(value, float)}
    rows = [f"| {name} | {value:.4f}{ends.get(name, '')} |" for name, value in numbers.items()]
    before = "Before the projection, m" if facts["embedding"]["projection"] else "M"
    protocol = f"`{data['protocol']}`" if data["protocol"] else "the dataset's protocol"
    queries = f"{data['queries']:,} test queries" if data["queries"] else "the test images"
    about = f"{before}easured by {protocol} on {queries} of the dataset. {honest}"
    if intervals:
        about += (
            " Confidence intervals (CI) are bootstrap intervals over classes: they resample the classes of the queries."
        )
    return ["## Scores", about, "\n".join(["| metric | value |", "|---|---|", *rows])]


def _list(tensors):
    return ", ".join(f"`{name}` {about}" for name, about in tensors.items())
