"""TensorBoard's HParams plugin finds settings and scores in the folders of runs."""

import pytest
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

from tests.run_helpers import result, straight_run
from tfdml.console import flags
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.loggers import write_hparams


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
