"""What all command lines share: one clear line for bad input, an exit status for each way to end."""

import gc
import logging
import sys

from absl import app, flags

STOPPED_STATUS = 75


def run(main):
    """Runs `main()` under absl; expected errors end in one line, `--debug` shows where they came from."""

    def guarded(arguments):
        if len(arguments) > 1:
            print(f"Error: Unexpected argument {arguments[1]!r}; options start with --.", file=sys.stderr)
            sys.exit(1)
        # Imported here, so that a mistyped flag is told at once.
        import tensorflow as tf

        from tfdml.callbacks import TrainingDiverged, TrainingStopped

        # What was imported stays: every full collection would walk through all of it, for a third of a second.
        gc.freeze()
        logging.getLogger("tensorflow").setLevel(logging.WARNING)
        try:
            main()
        except TrainingStopped as stopped:
            print(stopped, file=sys.stderr)
            sys.exit(STOPPED_STATUS)
        except KeyboardInterrupt:
            print("Interrupted.", file=sys.stderr)
            sys.exit(130)
        except (ValueError, OSError, ImportError, TrainingDiverged) as error:
            if flags.FLAGS.debug:
                raise
            print(f"Error: {' '.join(str(error).split())}", file=sys.stderr)
            sys.exit(1)
        except tf.errors.OpError as error:
            if flags.FLAGS.debug:
                raise
            print(f"Error: TensorFlow failed: {error.message.splitlines()[0]} (--debug shows where)", file=sys.stderr)
            sys.exit(1)

    app.run(guarded)
