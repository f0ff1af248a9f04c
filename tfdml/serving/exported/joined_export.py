"""Exports a run on stored features, joined with the network that computed them."""

from tfdml.methods import Joined
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.experiment import trained_model
from tfdml.serving.exported.backbone_export import features_of
from tfdml.serving.exported.run_export import facts_of_run
from tfdml.serving.exported.written_export import weights_of, write_export


def export_joined(run_dir, which, settings, out, **formats):
    """Writes the SavedModel of a backbone's features and a run's model behind them, to a folder that must not exist.

    Args:
        run_dir: path of a run on stored features.
        which: `best` or `final`.
        settings: `Settings`, which say the backbone, as of `export_backbone`: those that the features are from.
        out: the folder.
        **formats: `tolerant`, `lite` and `onnx`, as of `write_export`.
    """
    modules = {"import_modules": list(settings.run.import_modules)} if settings.run.import_modules else {}
    trained = trained_model(run_dir, which, modules)
    model = Joined(features_of(settings), trained)
    model.call_on((1, *model.preprocessing.image_shape))
    network = settings.network
    source, licence = weights_of(network, model.features.backbone)
    about = {"backbone": network.backbone, "head": network.head, "weights": source, "weights_licence": licence}
    write_export(model, out, {**facts_of_run(RunDirectory(run_dir), which, trained), **about}, **formats)
