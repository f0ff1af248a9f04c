"""Why a run ends early."""


class TrainingStopped(RuntimeError):
    """Training was asked to stop, and its state is saved."""


class TrainingDiverged(RuntimeError):
    """The loss, the gradient, or what they led to is not finite.

    Args:
        problem: what is not finite.
        step: steps taken.
    """

    def __init__(self, problem, step):
        super().__init__(
            f"{problem} at step {step}. Try a lower learning rate, a larger margin of the loss, or "
            "--precision=float32; checkpoints from before are whole."
        )
