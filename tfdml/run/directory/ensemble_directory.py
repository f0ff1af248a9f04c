"""The folder of an ensemble: the run directories of its members, and what they are together."""

import glob
import logging

from tfdml.run.directory.run_directory import RunDirectory

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
        """Number to run directory of the members that have a folder."""
        names = (path.name.removeprefix(MEMBER) for path in self.path.glob(f"{MEMBER}*"))
        return {number: self.member(number) for number in sorted(int(name) for name in names if name.isdecimal())}

    def begun(self):
        """The run directories of the members that have flags."""
        return [member for member in self.members().values() if member.has_flags]

    def asked(self):
        """The number of members that its flags say; 0 where it has no flags yet."""
        return self.settings().run.members if self._flags.exists() else 0

    def check_members(self, serialized, flags_of):
        """Raises if the folder cannot be this ensemble's: it is another's, or cannot be written.

        Args:
            serialized: `{name: "--name=value"}` of the ensemble, see `flags.serialize`.
            flags_of: function of a member's number that gives the same of the member.
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
        """The result of the ensemble if that many members are joined in it, or None."""
        result = self.result()
        return result if result and len(result["members"]) == count else None


def runs_of(patterns):
    """Returns the `RunDirectory` of each member, and the number of members that there should be.

    Args:
        patterns: list of paths of runs or of ensembles, which stand for all their members that are complete; `*` in
            them matches anything.
    """
    paths = [path for pattern in patterns for path in sorted(glob.glob(pattern)) or [pattern]]
    runs, asked = [], 0
    for path in paths:
        folder = EnsembleDirectory(path)
        members = folder.members()
        asked += max(folder.asked(), len(members), 1)
        missing = [member for member in members.values() if member.result() is None]
        for member in missing:
            again = "it is not complete; repeat its command to resume it"
            logging.getLogger(__name__).info("Left out %s: %s.", member.path, again)
        runs += [member for member in members.values() if member not in missing] if members else [RunDirectory(path)]
    names = [run.path.resolve() for run in runs]
    twice = [name for name in names if names.count(name) > 1]
    if not runs or twice:
        raise ValueError(f"Expected complete runs in --run_dirs, each once; received {twice[0] if twice else 'none'}.")
    for run in runs:
        run.settings()
        run.complete_result()
    return runs, asked
