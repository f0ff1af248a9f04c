"""`Record`: reads the folder of a run, which may be complete or still going on."""

import dataclasses
import functools
from operator import itemgetter

from tfdml import registry
from tfdml.console import flags
from tfdml.run.directory.ensemble_directory import EnsembleDirectory
from tfdml.run.directory.model_archive import metadata_of
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.length import steps_of

# The flags that say most, in this order.
MAIN = ("dataset", "method", "loss", "backbone", "embedding_size", "sampler", "optimizer", "seed")


@dataclasses.dataclass(frozen=True)
class Record:
    """The flags, the log and the result of a run.

    Args:
        run: `RunDirectory`.
        result: what `result.json` holds; empty while the run goes on.
    """

    run: RunDirectory
    result: dict

    @classmethod
    def of(cls, run_dir):
        """Reads a run directory."""
        run, members = RunDirectory(run_dir), EnsembleDirectory(run_dir).members()
        if members and not run.has_flags:
            first = next(iter(members.values()))
            raise ValueError(
                f"The ensemble in {run_dir} is not joined yet; name one of its members, such as {first.path}."
            )
        run.settings()
        return cls(run, run.complete_result() if run.result() else {})

    @functools.cached_property
    def settings(self):
        """The `Settings` of the run."""
        return self.run.settings()

    @functools.cached_property
    def events(self):
        """The events of the log, see `RunDirectory.events`."""
        return self.run.events()

    @property
    def step(self):
        """The last step that is known."""
        return self.result.get("step") or max((event["step"] for event in self.events), default=0)

    def best_step(self, monitor):
        """The step of the best model, or of the best so far by the metric that selects it."""
        if self.result:
            return self.result["best"]["step"]
        best = self.best_evaluation(monitor)
        return best["step"] if best else 0

    def best_evaluation(self, monitor):
        """The event of the evaluation that is best by a metric; None where it has no value yet."""
        evaluations = (event for event in self.events if event["event"] == "evaluation")
        scored = (event for event in evaluations if event.get(monitor) is not None)
        return max(scored, key=itemgetter(monitor), default=None)

    def is_training(self):
        """Whether a process trains in the folder now."""
        try:
            self.run.check_free()
        except ValueError:
            return True
        except OSError:
            # Of a folder that cannot be written nobody knows.
            return False
        return False

    def steps(self):
        """The number of steps that the run takes at most; None before its first epoch has ended."""
        epochs = [(event["step"], event["epoch"]) for event in self.events if event["event"] == "train"]
        length = self.settings.length
        of_epoch = length.steps_per_epoch or (epochs[-1][0] // epochs[-1][1] if epochs else 0)
        return steps_of(length) or length.epochs * of_epoch or None

    def main(self):
        """The flags that say most, name to value."""
        network = self.settings.network
        size = network.embedding_size if _is_sized(network.method) else "those of the backbone's features"
        values = {**self.settings.values(), "backbone": network.backbone_or_origin, "embedding_size": size}
        return {name: values[name] for name in MAIN}

    def changed(self):
        """The flags that are not at their default: name to value and default, as text."""
        defaults, lines = flags.resolve([]), self.run.serialized()
        return {
            name: (_value(name, line), _value(name, defaults[name]))
            for name, line in lines.items()
            if line != defaults[name]
        }

    def flags(self):
        """All flags as text, name to value."""
        return {name: _value(name, line) for name, line in self.run.serialized().items()}

    def command(self):
        """The command that trains the same again."""
        defaults, lines = flags.resolve([]), self.run.serialized()
        changed = [flags.quoted(line) for name, line in lines.items() if line != defaults[name]]
        return " \\\n  ".join(["python -m tfdml.train", *changed, "--run_dir=runs/again"])

    def saved_by(self):
        """Returns the date and the version of Keras that the file of the model has, name to value."""
        if not self.run.model.is_file():
            return {}
        about = metadata_of(self.run.model_file("best"))
        saved, version = (str(about.get(name, "unknown")) for name in ("date_saved", "keras_version"))
        return {"Model saved": saved.replace("@", " "), "by Keras": version}


def _is_sized(method):
    """Whether a method has a size of its own; of a user's method, which may not be there, the flag counts."""
    name = registry.parse(method)[0][0]
    return name not in registry.names("method") or registry.takes("method", method, "embedding_size")


def _value(name, line):
    """The value of a flag as it is written, `--name=value`; of a switch, on or off."""
    if "=" in line:
        return line.partition("=")[2]
    return "on" if line == f"--{name}" else "off"
