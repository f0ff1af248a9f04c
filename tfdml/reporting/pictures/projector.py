"""The embeddings that TensorBoard's projector shows."""

from tfdml.registry import register
from tfdml.reporting.picture import Picture
from tfdml.run.experiment.judged_images import clusters_of
from tfdml.run.training.result import write_projector


@register("picture", "projector")
class Projected(Picture):
    """The test images at their embeddings, in TensorBoard's projector."""

    if_named = True

    def draw(self, subject, folder):
        train, assignment = subject.clusters or (None, None)
        clusters = clusters_of(subject.embeddings, subject.experiment, subject.model, train, assignment)
        write_projector(subject.experiment, subject.embeddings, subject.run, subject.learner_count, clusters)
        return [subject.run.tensorboard / "projector_config.pbtxt"]
