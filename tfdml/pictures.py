"""What is drawn of a run: from its experiment, model and result to files."""

from pipelines.images import thumbnail
from tfdml.reporting import draw_learners, draw_negative_distances, draw_only_one_right


def _learners(experiment, model, result, folder):
    if "learners" not in result:
        return []
    test, count = experiment.test, model.learner_count
    drawn = [folder / "learners.png"]
    draw_learners(result["learners"], drawn[0])
    embeddings, path = experiment.embed(model, test), folder / "only_one_right.png"
    if draw_only_one_right(embeddings, test.labels, count, lambda row, side: thumbnail(test, row, side), path):
        drawn.append(path)
    distances = result.get("clusters", {}).get("negative_distances")
    if distances:
        drawn.append(folder / "negative_distances.png")
        draw_negative_distances(distances, drawn[-1])
    return drawn


# Each a function of the experiment, the final model, the result and a folder; it gives the files that it wrote there.
PICTURES = {"learners": _learners}
