"""Runs on datasets with protocols of their own, from the command line to the result."""

import pytest

from pipelines.datasets.inshop import METRICS
from tests.commands import last_json, ok, run
from tests.pipelines import tiny_datasets as tiny
from tests.run_helpers import MODEL_FLAGS, events, result, straight_run, train
from tfdml.console.scores import titled

SHORT = [*MODEL_FLAGS, "--epochs=1", "--steps_per_epoch=2", "--sampler=uniform(batch_size=2)"]


def train_on(dataset, data_dir, run_dir, *more):
    return ok("tfdml.train", f"--dataset={dataset}", f"--data_dir={data_dir}", f"--run_dir={run_dir}", *SHORT, *more)


def evaluate(run_dir, *more):
    return last_json(run("tfdml.evaluate", f"--run_dir={run_dir}", *more))


@pytest.mark.nightly
def test_inshop_is_measured_by_its_queries_and_gallery(tmp_path):
    run_dir = tmp_path / "run"
    done = train_on("inshop", tiny.write_inshop(tmp_path / "data"), run_dir)
    metrics = result(run_dir)["metrics"]
    assert set(metrics) == {*METRICS, "queries"}
    assert metrics["queries"] == 2 and metrics["recall_at_10"] == 1.0
    assert [event["queries"] for event in events(run_dir) if event["event"] == "evaluation"] == [2, 2]
    found = evaluate(run_dir, "--which=final")
    assert found["protocol"] == f"query_gallery(metrics={METRICS})"
    assert {name: found[name] for name in metrics} == metrics
    (titles,) = [line for line in done.stdout.splitlines() if line.lstrip().startswith("Recall@1 ")]
    assert titles.split() == [titled(name) for name in METRICS]


@pytest.mark.slow
def test_evaluate_takes_another_protocol():
    found = evaluate(straight_run(), "--protocol=self_retrieval(metrics=('recall_at_1', 'recall_at_3'))")
    assert found["protocol"] == "self_retrieval(metrics=('recall_at_1', 'recall_at_3'))"
    assert found["queries"] == 64 and "recall_at_3" in found and "recall_at_8" not in found


@pytest.mark.nightly
def test_another_dataset_brings_its_own_protocol_and_no_list_of_images(tmp_path):
    data = tiny.write_inshop(tmp_path / "data")
    ignored = tmp_path / "ignored.txt"
    ignored.write_text("Img/img/WOMEN/Blouses_Shirts/id_00000002/gallery_0_front.jpg\n")
    train_on(
        "inshop",
        data,
        tmp_path / "run",
        f"--ignore_images={ignored}",
        "--protocol=query_gallery(metrics=('recall_at_1', 'recall_at_2'))",
    )
    assert result(tmp_path / "run")["metrics"].keys() == {"recall_at_1", "recall_at_2", "queries"}
    tiny.write_vehicleid(tmp_path / "vehicles")
    ignored.unlink()
    found = evaluate(tmp_path / "run", "--dataset=vehicleid(size='medium')", f"--data_dir={tmp_path}/vehicles")
    assert found["protocol"] == "random_gallery(metrics=('recall_at_1', 'recall_at_5'))"
    # Of two vehicles with three and two images, one of each is the gallery.
    assert found["queries"] == 3 and found["recall_at_5"] == 1.0


@pytest.mark.nightly
def test_market_by_folds(tmp_path):
    tiny.write_market(tmp_path / "data")
    flags = ["--evaluate_on=validation", "--folds=2", "--fold=1"]
    done = train_on("market1501", tmp_path / "data", tmp_path / "run", *flags)
    tables = [line.split()[0] for line in done.stdout.splitlines() if line.lstrip().startswith("Recall@1 ")]
    assert tables == ["validation", "test"]
    # One person of two images from two cameras is held out; the test has two queries.
    assert {event["queries"] for event in events(tmp_path / "run") if event["event"] == "evaluation"} == {2}
    assert result(tmp_path / "run")["metrics"]["queries"] == 2
    found = evaluate(tmp_path / "run")
    assert found["split"] == "test" and found["queries"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags, words",
    [
        (["--folds=4"], "it needs --evaluate_on=validation"),
        (["--folds=4", "--fold=4", "--evaluate_on=validation"], "Received: fold 4 of 4"),
        (["--select_by=nmi"], "--select_by=nmi must be a metric of the protocol"),
        (["--protocol=galery"], "Unknown protocol 'galery'"),
        (["--ignore_images=/none/such"], "Cannot read --ignore_images=/none/such"),
    ],
)
def test_flags_that_do_not_work_are_told(tmp_path, flags, words):
    done = train(tmp_path / "run", *flags)
    assert done.returncode == 1 and words in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert not (tmp_path / "run").exists()
