"""Groups of runs that are compared, such as those of several seeds."""

# How many groups of runs are compared: as many as there are letters.
MOST_GROUPS = 26


def groups_of(text, most=MOST_GROUPS):
    """Returns a list of run directories for each group.

    Args:
        text: value of `--run_dirs`: `A0,A1:B0,B1`, or `A,B`, where each run is a group.
        most: the largest number of groups.
    """
    groups = [[run_dir.strip() for run_dir in part.split(",")] for part in text.split(":")]
    if len(groups) == 1:
        groups = [[run_dir] for run_dir in groups[0]]
    if not 2 <= len(groups) <= most or not all(run_dir for group in groups for run_dir in group):
        raise ValueError(
            f"Expected --run_dirs=A,B, or several of each as A0,A1:B0,B1, of up to {most} groups; received {text!r}."
        )
    run_dirs = [run_dir for group in groups for run_dir in group]
    twice = [run_dir for run_dir in run_dirs if run_dirs.count(run_dir) > 1]
    if twice:
        raise ValueError(f"Expected different runs in --run_dirs, received {twice[0]} more than once.")
    return groups
