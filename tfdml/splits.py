"""Which rows train, which are evaluated while training, and which are the test."""

from pipelines.datasets import load


def load_splits(settings):
    """The dataset and its training, evaluation and test splits, as the flags have them.

    Args:
        settings: namespace with the flags' values.
    """
    dataset = load(settings.dataset, data_dir=settings.data_dir, ignore_images=settings.ignore_images)
    train, evaluation = _train_and_evaluation(dataset, settings)
    # Losses with proxies count on numbers without a gap.
    return dataset, train.numbered(), evaluation, dataset.test


def _train_and_evaluation(dataset, settings):
    if settings.evaluate_on == "test":
        if settings.folds:
            raise ValueError("--folds needs --evaluate_on=validation: folds are made of the training classes.")
        return dataset.train, dataset.test
    if settings.folds:
        return dataset.fold(settings.fold, settings.folds, settings.seed)
    return dataset.hold_out(settings.validation_classes, settings.seed)
