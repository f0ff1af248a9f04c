"""Reads the folder of a run or an ensemble, which may be complete or still training."""

import dataclasses
import functools
import glob
import logging
from operator import itemgetter

from tfdml import registry
from tfdml.console import flags
from tfdml.run.directory.model_archive import metadata_of
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.length import steps_of

# The name of a member's folder, which a number follows.
MEMBER = "member_"


class EnsembleDirectory(RunDirectory):
    """A run directory that contains `member_000`, `member_001` and so on, each of which is a run directory.

    The folder's own flags, models and result describe the joined members. They are written when the members are joined.
    """

    # An ensemble has no flags until its members are trained.
    beside_a_run = (*RunDirectory.beside_a_run, MEMBER)

    def member(self, number):
        return RunDirectory(self.path / f"{MEMBER}{number:03}")

    def members(self):
        """Returns a dictionary from number to run directory of the members with a folder."""
        names = (path.name.removeprefix(MEMBER) for path in self.path.glob(f"{MEMBER}*"))
        return {number: self.member(number) for number in sorted(int(name) for name in names if name.isdecimal())}

    def begun(self):
        """Returns the run directories of the members with flags."""
        return [member for member in self.members().values() if member.has_flags]

    def asked(self):
        """Returns the number of members in the ensemble's flags, or 0 if it has no flags yet."""
        return self.settings().run.members if self._flags.exists() else 0

    def check_members(self, serialized, flags_of):
        """Raises an error if an ensemble with these flags cannot use the folder.

        `serialized` is `{name: "--name=value"}` of the ensemble, and `flags_of` returns the same for a member's number.
        """
        if self._flags.exists():
            if not self.asked() and self.has_begun():
                raise ValueError(
                    f"--run_dir={self.path} contains a run that is not an ensemble. Use another --run_dir."
                )
            if self.asked() and not self.members():
                raise ValueError(
                    f"--run_dir={self.path} contains an ensemble with members in other folders. Use another --run_dir."
                )
        else:
            self.check_claim(serialized)
        for number, member in self.members().items():
            member.check_claim(flags_of(number))

    def joined(self, count):
        """Returns the result of the ensemble if it joins `count` members, or None."""
        result = self.result()
        return result if result and len(result["members"]) == count else None


def runs_of(patterns):
    """Returns the `RunDirectory` of each complete member, and the number of members that there should be.

    Patterns are paths of runs, or of ensembles, which represent all their complete members. `*` matches any text.
    """
    paths = [path for pattern in patterns for path in sorted(glob.glob(pattern)) or [pattern]]
    runs, asked = [], 0
    for path in paths:
        folder = EnsembleDirectory(path)
        members = folder.members()
        asked += max(folder.asked(), len(members), 1)
        missing = [member for member in members.values() if member.result() is None]
        for member in missing:
            message = "Skipped %s, because it is not complete. To resume it, repeat its command."
            logging.getLogger(__name__).info(message, member.path)
        runs += [member for member in members.values() if member not in missing] if members else [RunDirectory(path)]
    names = [run.path.resolve() for run in runs]
    twice = [name for name in names if names.count(name) > 1]
    if not runs or twice:
        received = f"{twice[0]} more than once" if twice else "none"
        raise ValueError(f"--run_dirs must name complete runs, each of them once. Received: {received}.")
    for run in runs:
        run.settings()
        run.complete_result()
    return runs, asked


# The most informative flags, in this order.
MAIN = ("dataset", "method", "loss", "backbone", "embedding_size", "sampler", "optimizer", "seed")


@dataclasses.dataclass(frozen=True)
class Record:
    """The flags, the log and the result of a run. The result is empty while the run trains."""

    run: RunDirectory
    result: dict

    @classmethod
    def of(cls, run_dir):
        run, members = RunDirectory(run_dir), EnsembleDirectory(run_dir).members()
        if members and not run.has_flags:
            first = next(iter(members.values())).path
            raise ValueError(
                f"The ensemble in {run_dir} is not joined yet. Use one of its members instead, such as {first}."
            )
        run.settings()
        return cls(run, run.complete_result() if run.result() else {})

    @functools.cached_property
    def settings(self):
        return self.run.settings()

    @functools.cached_property
    def events(self):
        return self.run.events()

    @property
    def step(self):
        """The last known step."""
        return self.result.get("step") or max((event["step"] for event in self.events), default=0)

    def best_step(self, monitor):
        """Returns the step of the best model, or of the best model so far, by the metric that selects it."""
        if self.result:
            return self.result["best"]["step"]
        best = self.best_evaluation(monitor)
        return best["step"] if best else 0

    def best_evaluation(self, monitor):
        """Returns the event of the best evaluation by a metric, or None if the metric has no value yet."""
        evaluations = (event for event in self.events if event["event"] == "evaluation")
        scored = (event for event in evaluations if event.get(monitor) is not None)
        return max(scored, key=itemgetter(monitor), default=None)

    def is_training(self):
        try:
            self.run.check_free()
        except (ValueError, OSError) as error:
            # A ValueError shows that the folder is locked. With an OSError, the folder cannot be written, so the lock
            # is unknown.
            return isinstance(error, ValueError)
        return False

    def steps(self):
        """Returns the maximum number of steps of the run, or None before the end of its first epoch."""
        epochs = [(event["step"], event["epoch"]) for event in self.events if event["event"] == "train"]
        length = self.settings.length
        of_epoch = length.steps_per_epoch or (epochs[-1][0] // epochs[-1][1] if epochs else 0)
        return steps_of(length, of_epoch) or None

    def main(self):
        """Returns a dictionary from name to value of the most informative flags."""
        network = self.settings.network
        name = registry.parse(network.method)[0][0]
        # A custom method may not be registered here, and then the flag is shown.
        is_sized = name not in registry.names("method") or registry.takes("method", network.method, "embedding_size")
        size = network.embedding_size if is_sized else "size of the backbone's features"
        values = {**self.settings.values(), "backbone": network.backbone_or_origin, "embedding_size": size}
        return {name: values[name] for name in MAIN}

    def changed(self):
        """Returns a dictionary of the flags that differ from their default, from name to value and default as text."""
        defaults, lines = flags.resolve([]), self.run.serialized()
        names = [name for name, line in lines.items() if line != defaults[name]]
        return {name: (_value(name, lines[name]), _value(name, defaults[name])) for name in names}

    def flags(self):
        return {name: _value(name, line) for name, line in self.run.serialized().items()}

    def command(self):
        """Returns a command that trains the same model again."""
        lines = self.run.serialized()
        changed = [flags.quoted(lines[name]) for name in self.changed()]
        return " \\\n  ".join(["python -m tfdml.train", *changed, "--run_dir=runs/again"])

    def saved_by(self):
        """Returns a dictionary with the date and the Keras version that are stored in the model file."""
        if not self.run.model.is_file():
            return {}
        archive = metadata_of(self.run.model_file("best"))
        saved, version = (str(archive.get(name, "unknown")) for name in ("date_saved", "keras_version"))
        return {"Model saved": saved.replace("@", " "), "by Keras": version}


def _value(name, line):
    """Returns the value in `--name=value`, or on or off for a switch."""
    if "=" in line:
        return line.partition("=")[2]
    return "on" if line == f"--{name}" else "off"
