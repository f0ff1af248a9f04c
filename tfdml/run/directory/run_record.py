"""Reads the folder of a run or of an ensemble, which may be complete or still training."""

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

# The folders of members are called so, with a number.
MEMBER = "member_"


class EnsembleDirectory(RunDirectory):
    """A run directory with `member_000`, `member_001` and so on in it, each a run directory of its own.

    Its own flags, models and result are those of the members together, and are written when they are joined.
    """

    # It has no flags until members are trained.
    beside_a_run = (*RunDirectory.beside_a_run, MEMBER)

    def member(self, number):
        return RunDirectory(self.path / f"{MEMBER}{number:03}")

    def members(self):
        """Returns number to run directory of the members that have a folder."""
        names = (path.name.removeprefix(MEMBER) for path in self.path.glob(f"{MEMBER}*"))
        return {number: self.member(number) for number in sorted(int(name) for name in names if name.isdecimal())}

    def begun(self):
        """Returns the run directories of the members that have flags."""
        return [member for member in self.members().values() if member.has_flags]

    def asked(self):
        """Returns the number of members in its flags; 0 if it has no flags yet."""
        return self.settings().run.members if self._flags.exists() else 0

    def check_members(self, serialized, flags_of):
        """Raises if the folder cannot be this ensemble's: it is another's, or cannot be written.

        `serialized` is `{name: "--name=value"}` of the ensemble, and `flags_of` returns the same for a member's number.
        """
        if self._flags.exists():
            if not self.asked() and self.has_begun():
                raise ValueError(f"--run_dir={self.path} holds an ordinary run; give another one for an ensemble.")
            if self.asked() and not self.members():
                raise ValueError(f"--run_dir={self.path} holds an ensemble of runs of other folders; give another one.")
        else:
            self.check_claim(serialized)
        for number, member in self.members().items():
            member.check_claim(flags_of(number))

    def joined(self, count):
        """Returns the result of the ensemble if that many members are joined in it, or None."""
        result = self.result()
        return result if result and len(result["members"]) == count else None


def runs_of(patterns):
    """Returns the `RunDirectory` of each member, and the number of members that there should be.

    The patterns are paths of runs or of ensembles, which stand for all their members that are complete; `*` matches
    anything.
    """
    paths = [path for pattern in patterns for path in sorted(glob.glob(pattern)) or [pattern]]
    runs, asked = [], 0
    for path in paths:
        folder = EnsembleDirectory(path)
        members = folder.members()
        asked += max(folder.asked(), len(members), 1)
        missing = [member for member in members.values() if member.result() is None]
        for member in missing:
            message = "Left out %s: it is not complete; repeat its command to resume it."
            logging.getLogger(__name__).info(message, member.path)
        runs += [member for member in members.values() if member not in missing] if members else [RunDirectory(path)]
    names = [run.path.resolve() for run in runs]
    twice = [name for name in names if names.count(name) > 1]
    if not runs or twice:
        raise ValueError(f"Expected complete runs in --run_dirs, each once; received {twice[0] if twice else 'none'}.")
    for run in runs:
        run.settings()
        run.complete_result()
    return runs, asked


# The flags that say most, in this order.
MAIN = ("dataset", "method", "loss", "backbone", "embedding_size", "sampler", "optimizer", "seed")


@dataclasses.dataclass(frozen=True)
class Record:
    """The flags, the log and the result of a run; the result is empty while the run continues."""

    run: RunDirectory
    result: dict

    @classmethod
    def of(cls, run_dir):
        run, members = RunDirectory(run_dir), EnsembleDirectory(run_dir).members()
        if members and not run.has_flags:
            first = next(iter(members.values())).path
            raise ValueError(f"The ensemble in {run_dir} is not joined yet; name one of its members, such as {first}.")
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
        """The last step that is known."""
        return self.result.get("step") or max((event["step"] for event in self.events), default=0)

    def best_step(self, monitor):
        """Returns the step of the best model, or of the best so far by the metric that selects it."""
        if self.result:
            return self.result["best"]["step"]
        best = self.best_evaluation(monitor)
        return best["step"] if best else 0

    def best_evaluation(self, monitor):
        """Returns the event of the evaluation that is best by a metric; None if it has no value yet."""
        evaluations = (event for event in self.events if event["event"] == "evaluation")
        scored = (event for event in evaluations if event.get(monitor) is not None)
        return max(scored, key=itemgetter(monitor), default=None)

    def is_training(self):
        try:
            self.run.check_free()
        except (ValueError, OSError) as error:
            # An OSError is of a folder that cannot be written, which nobody knows.
            return isinstance(error, ValueError)
        return False

    def steps(self):
        """Returns the most steps that the run takes; None before its first epoch has ended."""
        epochs = [(event["step"], event["epoch"]) for event in self.events if event["event"] == "train"]
        length = self.settings.length
        of_epoch = length.steps_per_epoch or (epochs[-1][0] // epochs[-1][1] if epochs else 0)
        return steps_of(length, of_epoch) or None

    def main(self):
        """Returns the flags that say most, name to value."""
        network = self.settings.network
        name = registry.parse(network.method)[0][0]
        # The flag counts for a user's method, which may not be registered here.
        is_sized = name not in registry.names("method") or registry.takes("method", network.method, "embedding_size")
        size = network.embedding_size if is_sized else "those of the backbone's features"
        values = {**self.settings.values(), "backbone": network.backbone_or_origin, "embedding_size": size}
        return {name: values[name] for name in MAIN}

    def changed(self):
        """Returns the flags that are not at their default: name to value and default, as text."""
        defaults, lines = flags.resolve([]), self.run.serialized()
        names = [name for name, line in lines.items() if line != defaults[name]]
        return {name: (_value(name, lines[name]), _value(name, defaults[name])) for name in names}

    def flags(self):
        return {name: _value(name, line) for name, line in self.run.serialized().items()}

    def command(self):
        """Returns the command that trains the same again."""
        lines = self.run.serialized()
        changed = [flags.quoted(lines[name]) for name in self.changed()]
        return " \\\n  ".join(["python -m tfdml.train", *changed, "--run_dir=runs/again"])

    def saved_by(self):
        """Returns the date and the version of Keras in the file of the model, name to value."""
        if not self.run.model.is_file():
            return {}
        archive = metadata_of(self.run.model_file("best"))
        saved, version = (str(archive.get(name, "unknown")) for name in ("date_saved", "keras_version"))
        return {"Model saved": saved.replace("@", " "), "by Keras": version}


def _value(name, line):
    """Returns the value of a flag that is written `--name=value`; of a switch, on or off."""
    if "=" in line:
        return line.partition("=")[2]
    return "on" if line == f"--{name}" else "off"
