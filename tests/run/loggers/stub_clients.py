"""Modules that stand for the clients of loggers: they have the calls that are used, and keep what is logged."""

import sys
from types import ModuleType, SimpleNamespace


def module(monkeypatch, name, **contents):
    made = ModuleType(name)
    vars(made).update(contents)
    # By which it is found where it is only looked for.
    made.__spec__ = SimpleNamespace(name=name)
    monkeypatch.setitem(sys.modules, name, made)


def mlflow(monkeypatch):
    """Puts MLflow in place; returns its runs, number to what was logged."""
    runs, experiments = {}, {}

    class MlflowException(Exception):
        pass

    class MlflowClient:
        def get_experiment_by_name(self, name):
            return SimpleNamespace(experiment_id=experiments[name]) if name in experiments else None

        def create_experiment(self, name):
            return experiments.setdefault(name, str(len(experiments)))

        def create_run(self, experiment, run_name, tags):
            number = f"run{len(runs)}"
            made = {"name": run_name, "tags": tags, "params": {}, "metrics": [], "status": "RUNNING"}
            runs[number] = {
                **made,
                "experiment": next(name for name, each in experiments.items() if each == experiment),
            }
            return SimpleNamespace(info=SimpleNamespace(run_id=number))

        def update_run(self, number, status):
            if number not in runs:
                raise MlflowException(f"Run '{number}' not found")
            runs[number]["status"] = status

        def log_batch(self, number, metrics=(), params=()):
            assert not set(dict(params)) & set(runs[number]["params"]), "a parameter is logged twice"
            runs[number]["params"].update(params)
            runs[number]["metrics"] += [(name, value, step) for name, value, _, step in metrics]

        def set_terminated(self, number, status):
            runs[number]["status"] = status

    module(monkeypatch, "mlflow", MlflowClient=MlflowClient)
    entities = {"Metric": lambda *values: values, "Param": lambda *values: values}
    module(monkeypatch, "mlflow.entities", **entities)
    module(monkeypatch, "mlflow.exceptions", MlflowException=MlflowException)
    return runs


def wandb(monkeypatch):
    """Puts Weights & Biases in place; returns its runs, number to what was logged."""
    runs = {}

    class Run:
        def __init__(self, number):
            self.id = number
            self.summary = runs[number]["summary"]

        def define_metric(self, name, step_metric):
            assert (name, step_metric) == ("*", "step")

        def log(self, values):
            runs[self.id]["logged"].append(values)

        def finish(self):
            runs[self.id]["finished"] = True

    def init(project, name, id, resume, config):
        number = id or f"run{len(runs)}"
        assert resume == "allow" and (id is None or id in runs)
        made = {"project": project, "name": name, "logged": [], "summary": {}, "finished": False}
        runs.setdefault(number, made)["config"] = config
        return Run(number)

    module(monkeypatch, "wandb", init=init, run=None)
    return runs
