"""A complete run goes on in its folder where its flags are given again with a larger length."""

from keras import ops

from tfdml.callbacks import TemperatureSchedule
from tfdml.callbacks.schedules import temperature_at
from tfdml.console.settings import names_with
from tfdml.run.experiment.length import steps_of

# Flags with other values of which a complete run goes on.
LENGTH = names_with(is_length=True)


def going_on(run, settings, serialized):
    """Returns settings and flags for the folder of a run, and whether they make the run that it holds longer.

    The epochs of a run keep their length: where the flags do not say it, the run does. So its flags, as they are
    written then, are those of a run of that length from its start.

    Args:
        run: `RunDirectory`.
        settings: `Settings` as they were given.
        serialized: the same as `{name: "--name=value"}`.
    """
    as_given = settings, serialized, False
    if not run.has_flags or not run.has_begun():
        return as_given
    before, saved = run.settings().length, run.serialized()
    if settings.length == before:
        return as_given
    of_epoch = before.steps_per_epoch or _steps_per_epoch(run)
    if not of_epoch or settings.length.steps_per_epoch not in (0, of_epoch):
        return as_given
    kept = {**serialized, "steps_per_epoch": f"--steps_per_epoch={of_epoch}"}
    settings = settings.replace(steps_per_epoch=of_epoch)
    if all(kept[name] == saved[name] for name in LENGTH):
        return settings, kept, False
    earlier, longer = _steps(before, of_epoch), _steps(settings.length, of_epoch)
    if run.result() is None or longer <= earlier:
        return as_given
    # Another run is refused as that, before it is told what would make this one longer.
    run.check_claim(serialized, may_change=LENGTH)
    _check(run, run.complete_result()["step"], earlier, longer, of_epoch)
    return settings, kept, True


def changes_of_schedules(run, model, callbacks, spec):
    """Returns a sentence for each schedule that goes on from another value than the one at which the run had ended.

    Args:
        run: `RunDirectory`, whose log ends where the run goes on.
        model: the model with the optimizer as it goes on.
        callbacks: the callbacks of the run.
        spec: value of `--schedule`.
    """
    step, sentences = 0, []
    ended = [event for event in run.events() if event["event"] == "train"][-1:]
    now = float(ops.convert_to_numpy(model.optimizer.learning_rate))
    for event in ended:
        step, was = event["step"], event["learning_rate"]
        if was != now:
            about = f"was {was:.3g} at the end of the run, and goes on at {now:.3g}"
            sentences.append(f"--schedule={spec} depends on the length: the learning rate {about}.")
    for each in callbacks:
        if isinstance(each, TemperatureSchedule) and each.first != each.last:
            now = temperature_at(step, each.first, each.last, each.steps)
            about = f"was {each.last:g} at the end of the run, and goes on at {now:g}"
            sentences.append(f"The negative temperature depends on the length: it {about}.")
    return sentences


def _steps(length, of_epoch):
    return steps_of(length) or length.epochs * of_epoch


def _steps_per_epoch(run):
    """Returns the number of steps of an epoch by the log of a run; None before the end of its first."""
    ends = (event["step"] // event["epoch"] for event in run.events() if event["event"] == "train")
    return next(ends, None)


def _check(run, step, earlier, longer, of_epoch):
    """Raises a ValueError if a run of `earlier` steps, complete after `step`, cannot go on to `longer`."""
    if step < earlier:
        raise ValueError(
            f"The run in --run_dir={run.path} stopped after step {step} of {earlier}, as --patience says, and a longer "
            "one would, too. Give another --run_dir."
        )
    if longer % of_epoch:
        raise ValueError(
            f"The run in --run_dir={run.path} has epochs of {of_epoch} steps, and --steps={longer} is no multiple of "
            f"them. Give --steps={-(-longer // of_epoch) * of_epoch}, or another --run_dir."
        )
    if not run.has_checkpoint:
        raise ValueError(
            f"The run in --run_dir={run.path} cannot be made longer: its checkpoints are gone. Give another --run_dir."
        )
