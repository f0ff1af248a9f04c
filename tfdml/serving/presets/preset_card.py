"""The card of a preset: a README.md whose front matter the hubs read."""

import json

from tfdml.serving.exported.model_card import rows_of_embedding, rows_of_network, scores_of, table_of

TASK = "image-feature-extraction"
TAGS = ["keras", "tfdml", "metric-learning", "image-retrieval", "image-similarity"]
# Where the address is not known yet.
PLACE = "folder or address of this preset"


def readme(facts, name):
    """Returns the text of README.md.

    Args:
        facts: those of `facts_of_model`, and of `facts_of_run` where a run is known; `licence`, and `address`.
        name: the name of the preset.
    """
    rows = {**(rows_of_network(facts) if "method" in facts else {}), **rows_of_embedding(facts)}
    rows["licence"] = facts.get("licence") or "not stated"
    rows["versions"] = ", ".join(f"{package} {version}" for package, version in facts["versions"].items())
    parts = [
        front_matter(facts, name) + f"\n# {name}",
        "This model maps images to embeddings: similar images have similar embeddings. Its preprocessing is included.",
        f'```python\nimport tfdml\n\nembedder = tfdml.from_preset("{facts.get("address") or PLACE}")\n'
        'embeddings = embedder.embed(["one.jpg", "other.jpg"])\n```',
        table_of(rows),
        *(scores_of(facts) if facts.get("scores") else []),
        "`config.json` says the same to programs, with the SHA-256 of `model.keras`, which `tfdml.from_preset` checks.",
    ]
    return "\n\n".join(parts) + "\n"


def front_matter(facts, name):
    """Returns what hubs read, in YAML: a line for each key, whose value is in JSON, which is YAML, too."""
    found = {"library_name": "tfdml", "pipeline_tag": TASK, "tags": TAGS}
    if facts.get("licence"):
        found["license"] = facts["licence"]
    if facts.get("scores"):
        found["model-index"] = [{"name": name, "results": [_result(facts)]}]
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in found.items()]
    return "\n".join(["---", *lines, "---", ""])


def _result(facts):
    dataset = facts["data"]["dataset"]
    return {
        "task": {"type": TASK},
        # The part before the arguments of a spec.
        "dataset": {"type": dataset.partition("(")[0], "name": dataset, "split": "test"},
        "metrics": [_metric(name, value, facts["intervals"].get(name)) for name, value in facts["scores"].items()],
    }


def _metric(name, value, ends):
    interval = {} if ends is None else {"args": {"interval_95": ends}}
    return {"type": name, "value": value, **interval}
