"""Published weights to Keras' own, and these to a run, through the command lines."""

import numpy as np
import pytest

from tests.backbones.weights.published_files import caffe_tensors, caffemodel
from tests.commands import assert_one_error, ok, run
from tests.run_helpers import train, trained
from tfdml.backbones import Small
from tfdml.registry import create
from tfdml.run.directory.model_files import load_weights


@pytest.mark.nightly
def test_caffes_googlenet(tmp_path):
    (tmp_path / "net.caffemodel").write_bytes(caffemodel(caffe_tensors(seed=1)))
    output = tmp_path / "googlenet.weights.h5"
    done = ok(
        "tfdml.convert_weights", "--source=caffe_googlenet", f"--input={tmp_path}/net.caffemodel", f"--output={output}"
    )
    lines = done.stdout.splitlines()
    assert "conv2_3x3/bias (192,) <- conv2/3x3.bias" in lines and "not used: loss3/classifier.bias (1000,)" in lines
    assert lines[-1] == f"Wrote 114 parameters. Use --backbone='googlenet(batch_norm=False)' --initial_weights={output}"
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".h5"] == [output.name]
    backbone = create("backbone", "googlenet")
    assert "114 parameters loaded; missing in the file: nothing" in load_weights(backbone, str(output))
    written = caffe_tensors(seed=1)["inception_4c/3x3"][0]
    np.testing.assert_array_equal(backbone.get_layer("inception_4c_3x3").kernel, written.transpose(2, 3, 1, 0))


BAD_FLAGS = {
    "no_source": ([], ["--source=", "caffe_googlenet", "torchvision_resnet50"]),
    "unknown_source": (["--source=resnet50"], ["--source=resnet50", "torchvision_resnet50"]),
    "no_input": (["--source=caffe_googlenet"], ["--input", "bvlc_googlenet.caffemodel"]),
    "no_output": (["--source=caffe_googlenet", "--input=x"], [".weights.h5"]),
    # Told before the file is read.
    "no_folder": (
        ["--source=caffe_googlenet", "--input=/none/x", "--output=/none/x.weights.h5"],
        ["--output=/none/x.weights.h5: the folder /none does not exist"],
    ),
    "no_such_file": (["--source=caffe_googlenet", "--input=/none/x", "--output=x.weights.h5"], ["/none/x"]),
    "damaged": (["--source=caffe_googlenet", f"--input={__file__}", "--output=x.weights.h5"], [__file__, "caffemodel"]),
}


@pytest.mark.parametrize("flags, words", BAD_FLAGS.values(), ids=BAD_FLAGS)
def test_bad_flags_end_in_one_line(flags, words):
    assert_one_error(run("tfdml.convert_weights", *flags), *words)


@pytest.mark.nightly
def test_training_says_what_it_loaded(tmp_path):
    path = tmp_path / "shallow.weights.h5"
    Small(width=8, stages=1).save_weights(path)
    done = trained(tmp_path / "run", f"--initial_weights={path}", "--epochs=1")
    assert f"--initial_weights={path}: 10 parameters loaded; missing in the file: stage2_conv1," in done.stdout


def test_training_without_a_download(tmp_path):
    done = train(tmp_path / "run", "--initial_weights=imagenet")
    assert_one_error(done, "--initial_weights=imagenet", "small has no download of ImageNet weights")
