"""Errors that end a run early."""


class TrainingStopped(RuntimeError):
    """Raised when training stops on request; its state is saved."""


class TrainingDiverged(RuntimeError):
    """Raised when the loss, the gradient, or a result of these is NaN or infinite.

    Args:
        problem: what is not finite.
        step: number of steps taken.
    """

    def __init__(self, problem: str, step: int):
        super().__init__(
            f"{problem} at step {step}. Try a lower learning rate, a larger margin of the loss, or "
            "--precision=float32. Earlier checkpoints are intact."
        )


class WorkerFailed(RuntimeError):
    """Raised on all other workers when one fails in what they compute together."""
