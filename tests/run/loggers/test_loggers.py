"""Curves, settings and scores go to the logger that a run names, and a run that goes on is the same run there.

TensorBoard's HParams plugin finds settings and scores in the folders of runs.
"""

import importlib.util
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

from tests.commands import Command, assert_one_error
from tests.run.loggers import stub_clients
from tests.run_helpers import parsed, result, straight_run, train, train_flags
from tfdml.console import flags
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.loggers import LOGGERS, RunLog, check_client, log_result, write_hparams


def test_a_metric_without_a_value_is_null_and_no_scalar(tmp_path):
    RunLog(tmp_path).write("evaluation", 3, {"distance_ratio": None, "recall_at_1": 0.5})
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line) == {"event": "evaluation", "step": 3, "distance_ratio": None, "recall_at_1": 0.5}
    (path,) = (tmp_path / "tensorboard").iterdir()
    tags = [value.tag for event in tf.compat.v1.train.summary_iterator(str(path)) for value in event.summary.value]
    assert tags == ["evaluation/recall_at_1"]


RESULT = {"step": 20, "best": {"recall_at_1": 0.75, "step": 10, "queries": 8}, "metrics": {"recall_at_1": 0.5}}
SCORES = {"best/recall_at_1": 0.75, "final/recall_at_1": 0.5}


def begun(path, *flags):
    run = RunDirectory(path)
    run.claim(parsed(*flags)[1])
    return run


def log_twice(path, logger):
    """A run that logs, is stopped after a checkpoint, goes on in another process, and ends."""
    run = begun(path, f"--logger={logger}", "--epochs=2", "--metrics=map,nmi")
    log = RunLog(path, logger=logger)
    log.write("evaluation", 0, {"recall_at_1": np.float64(0.25), "distance_ratio": None}, queries=8)
    state = log.get_state()
    log.write("train", 10, {"loss": 1.5})
    again = RunLog(path, logger=logger)
    again.set_state(state)
    again.write("train", 10, {"loss": 1.5}, epoch=1)
    log_result(run, RESULT)
    assert [json.loads(line)["step"] for line in (path / "metrics.jsonl").read_text().splitlines()] == [0, 10]


LOGGED = [("evaluation/recall_at_1", 0.25, 0), ("train/loss", 1.5, 10), ("train/loss", 1.5, 10)]


def test_tensorboard_is_the_default_and_asks_for_no_client(tmp_path):
    assert parsed()[0].run.logger == "tensorboard"
    check_client("tensorboard")
    log_twice(tmp_path / "run", "tensorboard")
    assert not (tmp_path / "run" / "logger.json").exists()
    first, *_ = sorted((tmp_path / "run" / "tensorboard").glob("events*"))
    tags = [value.tag for event in tf.compat.v1.train.summary_iterator(str(first)) for value in event.summary.value]
    assert tags == ["evaluation/recall_at_1", "train/loss"]
    assert (tmp_path / "run" / "tensorboard" / "hparams").is_dir()


def test_mlflow(tmp_path, monkeypatch):
    runs = stub_clients.mlflow(monkeypatch)
    log_twice(tmp_path / "run", "mlflow")
    (found,) = runs.values()
    assert (found["name"], found["experiment"], found["tags"]) == ("run", "tfdml", {"run_dir": str(tmp_path / "run")})
    flags = {name: found["params"][name] for name in ("epochs", "metrics", "loss", "clip_norm")}
    assert flags == {"epochs": "2", "metrics": "map,nmi", "loss": "triplet", "clip_norm": "0.0"}
    assert found["metrics"][:3] == LOGGED and found["status"] == "FINISHED"
    assert found["metrics"][3:] == [(name, value, 20) for name, value in SCORES.items()]
    assert not (tmp_path / "run" / "tensorboard").exists()
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "cars")
    log_twice(tmp_path / "other", "mlflow")
    assert [each["experiment"] for each in runs.values()] == ["tfdml", "cars"]


def test_a_run_that_mlflow_has_lost_is_told(tmp_path, monkeypatch):
    runs = stub_clients.mlflow(monkeypatch)
    begun(tmp_path, "--logger=mlflow")
    RunLog(tmp_path, logger="mlflow").write("train", 1, {"loss": 1.0})
    runs.clear()
    with pytest.raises(ValueError, match=rf"does not have the run run0 of {tmp_path} .*remove {tmp_path}/logger"):
        RunLog(tmp_path, logger="mlflow").write("train", 2, {"loss": 1.0})
    (tmp_path / "logger.json").unlink()
    RunLog(tmp_path, logger="mlflow").write("train", 2, {"loss": 1.0})
    assert len(runs) == 1


def failing(*given, **named):
    raise ConnectionError("the server is away")


def test_a_client_that_fails_does_not_end_training(tmp_path, monkeypatch, caplog):
    runs = stub_clients.mlflow(monkeypatch)
    run = begun(tmp_path, "--logger=mlflow")
    log = RunLog(tmp_path, logger="mlflow")
    log.write("train", 1, {"loss": 1.0})
    monkeypatch.setattr(sys.modules["mlflow"].MlflowClient, "log_batch", failing)
    for step in (2, 3):
        log.write("train", step, {"loss": 1.0})
    assert [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [1, 2, 3]
    log_result(run, RESULT)
    # Of training and of its result, each once.
    assert caplog.text.count("--logger=mlflow failed (the server is away)") == 2
    assert runs["run0"]["metrics"] == [("train/loss", 1.0, 1)] and runs["run0"]["status"] == "RUNNING"


def test_a_client_that_fails_at_once_ends_the_run_in_one_line(tmp_path, monkeypatch):
    stub_clients.wandb(monkeypatch)
    monkeypatch.setattr(sys.modules["wandb"], "init", failing)
    begun(tmp_path, "--logger=wandb")
    with pytest.raises(ValueError, match="--logger=wandb cannot log: the server is away"):
        RunLog(tmp_path, logger="wandb").write("train", 1, {"loss": 1.0})


def test_wandb(tmp_path, monkeypatch):
    runs = stub_clients.wandb(monkeypatch)
    log_twice(tmp_path / "run", "wandb")
    (found,) = runs.values()
    assert (found["project"], found["name"], found["finished"]) == ("tfdml", "run", True)
    assert found["config"]["epochs"] == 2 and found["config"]["run_dir"] == str(tmp_path / "run")
    assert found["logged"] == [{"step": step, name: value} for name, value, step in LOGGED]
    assert found["summary"] == SCORES


def test_wandb_ends_the_run_that_this_process_has_begun(tmp_path, monkeypatch):
    runs = stub_clients.wandb(monkeypatch)
    run = begun(tmp_path, "--logger=wandb")
    RunLog(tmp_path, logger="wandb").write("train", 1, {"loss": 1.0})
    active = SimpleNamespace(id="run0", log=runs["run0"]["logged"].append, summary={}, finish=lambda: runs.clear())
    monkeypatch.setattr(sys.modules["wandb"], "run", active)
    monkeypatch.delattr(sys.modules["wandb"], "init")
    log_result(run, RESULT)
    assert active.summary == SCORES and not runs


def test_a_run_may_go_on_with_another_logger(tmp_path, monkeypatch):
    stub_clients.mlflow(monkeypatch)
    runs = stub_clients.wandb(monkeypatch)
    begun(tmp_path, "--logger=mlflow")
    for logger in ("mlflow", "wandb"):
        RunLog(tmp_path, logger=logger).write("train", 1, {"loss": 1.0})
    assert list(runs) == ["run0"] and json.loads((tmp_path / "logger.json").read_text())["logger"] == "wandb"


@pytest.mark.parametrize("content", ["{", "[]", '{"logger": "mlflow"}', '{"logger": "mlflow", "number": 7}'])
def test_a_damaged_number_is_told(content, tmp_path, monkeypatch):
    stub_clients.mlflow(monkeypatch)
    begun(tmp_path, "--logger=mlflow")
    (tmp_path / "logger.json").write_text(content)
    with pytest.raises(ValueError, match=r"logger\.json is damaged: .*\. If you remove it, the run is logged"):
        RunLog(tmp_path, logger="mlflow").write("train", 1, {"loss": 1.0})


def test_only_the_chief_logs(tmp_path, monkeypatch):
    runs = stub_clients.mlflow(monkeypatch)
    RunLog(tmp_path, enabled=False, logger="mlflow").write("train", 1, {"loss": 1.0})
    assert not runs and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_missing_client_is_told_before_anything_is_read(name, tmp_path):
    if importlib.util.find_spec(name):
        pytest.skip(f"{name} is installed")
    done = train(tmp_path / "run", f"--logger={name}")
    assert_one_error(
        done, f"--logger={name} needs {LOGGERS[name].program}. Install it with: pip install 'tfdml[{name}]'."
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_is_in_mlflows_local_store(tmp_path):
    """The real client: a run that is stopped, and goes on, is one run there with the curve of `metrics.jsonl`."""
    mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed; setup.py lists it")
    store = f"sqlite:///{tmp_path}/mlflow.db"
    run_dir = tmp_path / "run"
    given = train_flags(run_dir, "--logger=mlflow", "--steps_per_epoch=4", "--eval_every=1")
    environment = {"MLFLOW_TRACKING_URI": store}
    stopped = Command("tfdml.train", *given, environment=environment)
    stopped.until(lambda: any((run_dir / "checkpoints").glob("step-*"))).kill()
    done = Command("tfdml.train", *given, environment=environment).wait()
    assert done.returncode == 0, done.stderr
    client = mlflow.MlflowClient(store)
    (experiment,) = [each for each in client.search_experiments() if each.name == "tfdml"]
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED" and run.data.tags["run_dir"] == str(run_dir)
    assert run.data.params["epochs"] == "2" and run.data.params["steps_per_epoch"] == "4"
    found = result(run_dir)
    assert run.data.metrics["best/recall_at_1"] == pytest.approx(found["best"]["recall_at_1"])
    logged = {each.step: each.value for each in client.get_metric_history(run.info.run_id, "evaluation/recall_at_1")}
    events = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    assert logged == {each["step"]: each["recall_at_1"] for each in events if each["event"] == "evaluation"}
    assert not list((run_dir / "tensorboard").glob("events*"))


def sessions(log_dir):
    """The experiment and the sessions that the plugin shows."""
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(log_dir))
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(log_dir))
    context = backend_context.Context(base_plugin.TBContext(logdir=str(log_dir), data_provider=provider))
    start = context.hparams_metadata(RequestContext(), "")
    experiment = context.experiment_from_metadata(RequestContext(), "", True, start, [])
    every = [api_pb2.STATUS_UNKNOWN, api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE, api_pb2.STATUS_RUNNING]
    columns = [api_pb2.ColParams(hparam=info.name) for info in experiment.hparam_infos]
    columns += [api_pb2.ColParams(metric=info.name) for info in experiment.metric_infos]
    asked = api_pb2.ListSessionGroupsRequest(allowed_statuses=every, col_params=columns, slice_size=9)
    answer = list_session_groups.Handler(RequestContext(), context, "", asked).run()
    return experiment, answer.session_groups


def test_a_run_has_its_flags_and_scores():
    found = result(straight_run())
    experiment, (group,) = sessions(straight_run() / "tensorboard")
    assert group.hparams["loss"].string_value.startswith("ranked_list(")
    assert (group.hparams["epochs"].number_value, group.hparams["ema"].number_value) == (2, 0.9)
    assert {"method", "sampler", "lr_multipliers"} <= set(group.hparams) and "data_dir" not in group.hparams
    scores = {value.name.tag: value.value for value in group.metric_values}
    # The curves of training are none of them.
    assert all(name.startswith("hp/") for name in scores) and len(scores) == len(experiment.metric_infos)
    assert scores["hp/best/recall_at_1"] == pytest.approx(found["best"]["recall_at_1"])
    assert scores["hp/final/map_at_r"] == pytest.approx(found["metrics"]["map_at_r"])


def test_runs_of_a_study_stand_beside_each_other(tmp_path):
    for seed, recall in ((0, 0.25), (1, 0.5)):
        run = RunDirectory(tmp_path / str(seed))
        run.claim(flags.resolve([f"--seed={seed}", "--loss=margin", "--image_size=32x16", "--lr_multipliers=a=1,b=2"]))
        scores = {"recall_at_1": recall, "queries": 7}
        write_hparams(run, {"step": 5, "best": {**scores, "step": 5, "selected_on": "test"}, "metrics": scores})
    experiment, groups = sessions(tmp_path)
    assert sorted(group.hparams["seed"].number_value for group in groups) == [0, 1]
    given = {
        (group.hparams["image_size"].string_value, group.hparams["lr_multipliers"].string_value) for group in groups
    }
    assert given == {("32x16", "a=1,b=2")}
    assert {info.name.tag for info in experiment.metric_infos} == {"hp/best/recall_at_1", "hp/final/recall_at_1"}
    # What differs comes first.
    assert experiment.hparam_infos[0].name == "seed"
    assert {value.value for group in groups for value in group.metric_values} == {0.25, 0.5}


def test_an_ensemble_that_is_joined_again_has_its_last_scores(tmp_path):
    run = RunDirectory(tmp_path)
    run.claim(flags.resolve(["--members=3"]))
    for recall in (0.5, 0.75):
        write_hparams(run, {"step": 5, "best": {"recall_at_1": recall}, "metrics": {}, "members": []})
    _, (group,) = sessions(tmp_path)
    assert group.hparams["members"].number_value == 3
    assert [value.value for value in group.metric_values] == [0.75]
