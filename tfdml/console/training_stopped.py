"""`TrainingStopped`: ends a command on request."""


class TrainingStopped(RuntimeError):
    """Raised when training stops on request; its state is saved."""
