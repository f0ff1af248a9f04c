"""The flags of a run come back from its folder as they were."""

import pytest

from tests.run.parsed_flags import parsed

OTHER_VALUES = {
    "dataset": "toycars(classes=16, seed=3)",
    "data_dir": "/my data/Bilder für alle #1",
    "backbone": "small(width=8)",
    "initial_weights": "a=b.weights.h5",
    "initial_model": "/my runs/a=b/model.keras",
    "method": "multi_head(learners=4)",
    "head": "linear(dropout=0.25)",
    "loss": "triplet(margin=0.1, mining='hard')",
    "memory": "xbm(size=64)",
    "sampler": "uniform(batch_size=16)",
    "optimizer": 'sgd(learning_rate=1e-3, name="x")',
    "schedule": "cosine(warmup_epochs=1)",
    "layer_decay": "0.75",
    "freeze_until": "10",
    "lr_multipliers": "embedding=10,stage1_*=0.5",
    "warmup_epochs": "1.5",
    "freeze_batch_norm": "statistics",
    "decay_biases_and_norms": "False",
    "clip_norm": "0.1",
    "labels": "clusters(k=7)",
    "levels": "make,model",
    "meta_classes": "3",
    "meta_classes_of": "images",
    "ema": "0.999",
    "embedding_size": "7",
    "initial_embedding": "pca",
    "lora": "4",
    "remat": "True",
    "class_weights": "0.5",
    "baselines": "linear",
    "image_size": "31x17",
    "train_transform": "random_resized_crop(area=(0.2, 1.0))|flip",
    "test_transform": "warp",
    "cache": "bytes",
    "cache_memory": "0.5",
    "cache_dir": "/fast disk",
    "shrink_decoding": "True",
    "max_bad_images": "7",
    "epochs": "3",
    "steps": "60",
    "steps_per_epoch": "5",
    "eval_every": "2",
    "eval_batch_size": "9",
    "eval_unit": "steps",
    "evaluate_on": "validation",
    "validation_classes": "0.30000000000000004",
    "folds": "4",
    "fold": "3",
    "validation_seed": "0",
    "metrics": "mrr,nmi",
    "select_by": "mrr",
    "protocol": "query_gallery(metrics=('recall_at_1', 'recall_at_10'))",
    "ignore_images": "bad images.jsonl",
    "patience": "4",
    "seed": "2147483647",
    "members": "25",
    "precision": "mixed_bfloat16",
    "devices": "cpu:2",
    "deterministic": "False",
    "pieces": "4",
    "blend": "True",
    "jit_compile": "True",
    "checkpoint_every": "6",
    "keep_checkpoints": "1",
    "logger": "mlflow",
    "projector": "False",
    "import_modules": "os,json",
}


def test_every_flag_comes_back(run):
    default, _ = parsed()
    assert set(OTHER_VALUES) == set(default.values()), "give a new flag another value here"
    settings, serialized = parsed(*(f"--{name}={value}" for name, value in OTHER_VALUES.items()))
    same = [name for name in OTHER_VALUES if settings.values()[name] == default.values()[name]]
    assert same == []
    run.claim(serialized)
    assert run.settings() == settings
    run.check_claim(serialized)


def test_flags_txt_is_a_flagfile(run, tmp_path):
    """Given back, inside another flagfile, and with later flags that override it."""
    settings, serialized = parsed(*(f"--{name}={value}" for name, value in OTHER_VALUES.items()))
    run.claim(serialized)
    assert parsed(f"--flagfile={run.path / 'flags.txt'}") == (settings, serialized)
    outer = tmp_path / "outer.flags"
    outer.write_text(f"# a comment\n--epochs=1\n--flagfile={run.path / 'flags.txt'}\n--embedding_size=64\n")
    found, _ = parsed("--epochs=2", f"--flagfile={outer}", "--seed=5")
    assert found == settings.replace(embedding_size=64, seed=5)
    found, _ = parsed(f"--flagfile={outer}", "--epochs=2")
    assert found.length.epochs == 2


def test_paths_mean_the_same_in_every_working_directory(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative = ["--data_dir=photos", "--ignore_images=../bad.jsonl", "--cache_dir=cache"]
    run.claim(parsed(*relative)[1])
    run.check_claim(parsed(*relative)[1])
    monkeypatch.chdir("/")
    found = run.settings()
    assert (found.data.data_dir, found.images.cache_dir) == (str(tmp_path / "photos"), str(tmp_path / "cache"))
    assert found.data.ignore_images == str(tmp_path.parent / "bad.jsonl")


def test_a_run_goes_on_with_other_flags_that_change_no_result(run):
    run.claim(parsed("--data_dir=photos", "--ignore_images=photos/bad.jsonl", "--keep_checkpoints=2")[1])
    (run.checkpoints / "step-00000001").mkdir(parents=True)
    given = parsed("--data_dir=moved", "--ignore_images=moved/bad.jsonl", "--cache=bytes", "--logger=wandb")[1]
    run.check_claim(given)
    run.claim(given)
    assert run.serialized() == given


@pytest.mark.parametrize("path", ["", "~/photos", "gs://bucket/photos", "/photos"])
def test_paths_that_stay_as_they_are(path):
    assert parsed(f"--data_dir={path}")[0].data.data_dir == path


@pytest.mark.parametrize("text", ["--epochs=many\n", "--flag_of_a_later_version=1\n", "--epochs\n", "half a l"])
def test_damaged_flags_are_an_error_that_names_the_file(run, text):
    run.claim(parsed()[1])
    (run.path / "flags.txt").write_text(text)
    for ask in (run.settings, lambda: run.check_claim(parsed()[1])):
        with pytest.raises(ValueError) as caught:
            ask()
        assert str(run.path / "flags.txt") in str(caught.value)


def without_checksum(run, *lines):
    run.claim(parsed()[1])
    (run.path / "checksums.json").unlink()
    (run.path / "flags.txt").write_text("".join(lines))
    return str(run.path / "flags.txt")


LINES = [f"{line}\n" for line in parsed("--protocol=query_gallery", "--warmup_epochs=1.5", "--noprojector")[1].values()]


@pytest.mark.parametrize(
    "lines", [[], LINES[:5], LINES[:-1], [*LINES[:-1], LINES[-1][:-1]], [*LINES[:-1], LINES[-1][:-3]]]
)
def test_flags_that_were_cut_are_refused_also_without_a_checksum(run, lines):
    """A run would be evaluated on another dataset, or by another protocol."""
    path = without_checksum(run, *lines)
    with pytest.raises(ValueError, match=f"^{path} cannot be read: it is cut off"):
        run.settings()


def test_flags_of_a_run_name_no_other_file(run, tmp_path):
    (tmp_path / "other.flags").write_text("--epochs=9\n")
    path = without_checksum(run, f"--flagfile={tmp_path}/other.flags\n", *LINES)
    with pytest.raises(ValueError, match=f"^{path} cannot be read: expected --name=value on every line"):
        run.settings()
