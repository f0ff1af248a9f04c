"""Faces are aligned by their landmarks, and the weights of the face networks are read from their files."""

import json

import numpy as np
import pytest
from PIL import Image

from benchmarks.studies import lfw
from benchmarks.studies.face_networks import FaceNetwork, weights_of


def test_an_aligned_face_has_its_landmarks_where_dlib_has_them(tmp_path):
    """Each landmark of a turned and scaled face is a white square."""
    places = (np.array(lfw.PLACES) + 0.25) / 1.5
    assert lfw.places_of_five() == pytest.approx(places * 150)
    turned = 60 * np.array([[0.9, 0.3], [-0.3, 0.9]])
    points = places @ turned + (90, 110)
    pixels = np.zeros((250, 250, 3), np.uint8)
    for x, y in points.round().astype(int):
        pixels[y - 1 : y + 2, x - 1 : x + 2] = 255
    Image.fromarray(pixels).save(tmp_path / "face.png")
    (face,) = next(lfw.faces(tmp_path, ["face.png"], np.array([lfw.alignment(points, places * 150)])))
    assert face.shape == (150, 150, 3)
    for x, y in (places * 150).round().astype(int):
        assert face[y, x, 0] > 200
    # The squares of 3 pixels have about 8 pixels in the face.
    assert np.mean(face > 100) < 5 * 9**2 / 150**2


def test_the_alignment_is_the_least_squares_fit():
    random = np.random.default_rng(0)
    points = random.uniform(50, 200, (5, 2))
    places = random.uniform(0, 150, (5, 2))
    a, b, c, d, e, f = lfw.alignment(points, places)
    rows = [[[x, -y, 1, 0], [y, x, 0, 1]] for x, y in places]
    scale, turn, right, down = np.linalg.lstsq(np.reshape(rows, (10, 4)), points.ravel(), rcond=None)[0]
    assert (a, b, c, d, e, f) == pytest.approx((scale, -turn, right, turn, scale, down))


def test_landmarks_fit_a_mean_shape(tmp_path):
    """A network that finds the same landmarks in every face."""
    shape = np.random.default_rng(0).uniform(0.2, 0.8, (68, 2))
    names = [f"{number}.png" for number in range(3)]
    for name in names:
        Image.new("RGB", (250, 250)).save(tmp_path / name)
    sizes = []

    def network(batch):
        sizes.append(batch.shape[1:])
        return np.tile(shape, (len(batch), 1, 1))

    by_five, aligned = lfw.alignments(tmp_path, names, network)
    assert set(sizes) == {(112, 112, 3)} and len(sizes) == 2
    in_image = shape * 100 + (75, 85)
    assert by_five[1] == pytest.approx(lfw.alignment(in_image[lfw.FIVE], lfw.places_of_five()))
    # The landmarks of the second pass, in the image, and those of the first pass in the aligned face.
    linear = by_five[1].reshape(2, 3)
    second = shape * 150 @ linear[:, :2].T + linear[:, 2]
    mean = (in_image - linear[:, 2]) @ np.linalg.inv(linear[:, :2]).T
    assert aligned[1] == pytest.approx(lfw.alignment(second[17:], mean[17:]))


def test_weights_of_8_bits_are_scaled(tmp_path):
    coded = {"name": "a", "shape": [2, 1], "dtype": "float32"}
    coded["quantization"] = {"dtype": "uint8", "scale": 0.5, "min": -1.0}
    plain = {"name": "b", "shape": [1], "dtype": "float32"}
    manifest = [{"paths": ["net.bin"], "weights": [coded, plain]}]
    (tmp_path / "net-weights_manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "net.bin").write_bytes(bytes([0, 4]) + np.float32(7).tobytes())
    arrays = weights_of(tmp_path, "net")
    assert arrays["a"].tolist() == [[-1.0], [1.0]] and arrays["b"].tolist() == [7.0]
    (tmp_path / "net.bin").write_bytes(bytes(7))
    with pytest.raises(ValueError, match="describes 6 bytes. Received: 7 bytes"):
        weights_of(tmp_path, "net")


def test_a_smaller_sum_is_padded_with_zeros():
    """A block with a stride: pooling keeps two of five rows, and the convolutions have a larger third channel."""
    network = object.__new__(FaceNetwork)
    weights = {}
    for name, channels in (("conv1", 1), ("conv2", 2)):
        kernel = np.zeros((3, 3, channels, 2), "float32")
        kernel[1, 1, 0, 1] = 1
        weights |= {f"x/{name}/conv/filters": kernel, f"x/{name}/conv/bias": np.zeros(2, "float32")}
        weights |= {f"x/{name}/scale/weights": np.ones(2, "float32"), f"x/{name}/scale/biases": np.zeros(2, "float32")}
    # The second convolution reads the channel that the first one writes.
    weights["x/conv2/conv/filters"][1, 1] = [[0, 0], [0, 1]]
    network.weights = weights
    pixels = np.arange(25, dtype="float32").reshape(1, 5, 5, 1)
    halved = np.asarray(network._halved(pixels, "x"))[0]
    # Without padding, 3 × 3 kernels with a stride of 2 are centered on rows and columns 1 and 3.
    assert halved[..., 1].tolist() == [[6, 8], [16, 18]]
    assert halved[..., 0].tolist() == [[3, 5], [13, 15]]
    four = np.asarray(network._halved(pixels[:, :4, :4], "x"))[0]
    assert four[..., 1].tolist() == [[6, 0], [0, 0]] and four[..., 0].tolist() == [[3, 5], [13, 15]]
