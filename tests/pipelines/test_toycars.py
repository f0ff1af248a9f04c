import io
import itertools
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from pipelines.datasets import toycars as module
from pipelines.datasets.toycars import (
    ATTRIBUTES,
    DECIDING_PARTS,
    MOST_CLASSES,
    Design,
    completed,
    designs,
    grouped_designs,
    toycars,
)
from pipelines.datasets.toycars_drawing import BODIES, PARTS, render

SMALL = {"classes": 6, "images_per_class": 3, "image_size": 24}


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(picture))).astype("int64")


def pictures(dataset):
    return [*dataset.train.images, *dataset.test.images]


def never(*_):
    raise RuntimeError("rendered again")


def recall_at_1(features, labels):
    features = features / np.linalg.norm(features, axis=1, keepdims=True)
    similarity = features @ features.T
    np.fill_diagonal(similarity, -1)
    return np.mean(labels[similarity.argmax(axis=1)] == labels)


def test_halves_share_no_class_and_rows_are_pictures_of_the_asked_size(tmp_path):
    dataset = toycars(data_dir=tmp_path, **{**SMALL, "classes": 7})
    np.testing.assert_array_equal(dataset.train.labels, np.repeat([0, 1, 2], 3))
    np.testing.assert_array_equal(dataset.test.labels, np.repeat([3, 4, 5, 6], 3))
    assert dataset.train.encoded and dataset.test.encoded
    assert {pixels(picture).shape for picture in pictures(dataset)} == {(24, 24, 3)}


def test_class_names_describe_the_designs(tmp_path):
    names = toycars(data_dir=tmp_path, **SMALL).test.class_names
    assert names == {label: ", ".join(design) for label, design in enumerate(designs(6, seed=0))}


def test_same_seed_same_bytes_other_seed_other_pictures(tmp_path):
    first = pictures(toycars(data_dir=tmp_path / "first", **SMALL))
    assert pictures(toycars(data_dir=tmp_path / "second", **SMALL)) == first
    assert not set(first) & set(pictures(toycars(data_dir=tmp_path, seed=1, **SMALL)))


def test_a_picture_depends_on_no_other(tmp_path):
    dataset = toycars(data_dir=tmp_path, **SMALL)
    alone = render(designs(6, seed=0)[4], np.random.default_rng([0, 4, 2]), 24)
    assert dataset.test.images[5] == alone


def test_designs_repeat_none_and_use_bodies_evenly_in_both_halves():
    chosen = designs(200, seed=0)
    assert len(set(chosen)) == 200
    for half in chosen[:100], chosen[100:]:
        counts = [sum(design.body == body for design in half) for body in ATTRIBUTES["body"]]
        assert min(counts) >= 12 and max(counts) <= 13
    for attribute, kinds in ATTRIBUTES.items():
        assert {getattr(design, attribute) for design in chosen} == set(kinds)
    assert designs(200, seed=1) != chosen


def test_all_designs_can_be_taken(monkeypatch):
    few = {part: dict(itertools.islice(kinds.items(), 2)) for part, kinds in module.PARTS.items()}
    monkeypatch.setattr(module, "PARTS", few)
    total = 8 * 2**7
    assert len(set(designs(total, seed=0))) == total


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_every_kind_of_every_attribute_shows(attribute):
    """Pictures that differ in one attribute only, on several designs and nuisances: most differ to the eye."""
    visible = {}
    for seed, design in enumerate(designs(16, seed=0)):
        shown = {}
        for kind in ATTRIBUTES[attribute]:
            changed = design._replace(**{attribute: kind})
            shown[kind] = pixels(render(changed, np.random.default_rng(seed), 48))
        for one, other in itertools.combinations(shown, 2):
            changes = np.abs(shown[one] - shown[other]).max(axis=2)
            visible.setdefault((one, other), []).append(np.sum(changes > 30) >= 3)
    assert {pair: seen for pair, seen in visible.items() if np.mean(seen) < 0.7} == {}


@pytest.fixture(scope="module")
def sixty_classes(tmp_path_factory):
    """`[classes, images, height, width, 3]` pixels of the test half."""
    split = toycars(data_dir=tmp_path_factory.mktemp("toycars"), classes=60, images_per_class=8, image_size=32).test
    return np.stack([pixels(picture) for picture in split.images]).reshape(30, 8, 32, 32, 3)


def test_colour_histograms_do_not_find_the_class(sixty_classes):
    cells = sixty_classes.reshape(240, -1, 3) // 32
    bins = cells @ [64, 8, 1]
    histograms = np.stack([np.bincount(picture, minlength=512) for picture in bins])
    assert recall_at_1(histograms, np.repeat(np.arange(30), 8)) < 0.15


def test_the_cars_colour_varies_within_a_class_as_it_does_between_classes(sixty_classes):
    """The ratio of an analysis of variance: near 1 without an effect of the class, and far above with one."""
    colours = np.median(sixty_classes[:, :, 12:24, 10:22], axis=(2, 3))
    between = 8 * colours.mean(axis=1).var(axis=0, ddof=1)
    within = colours.var(axis=1, ddof=1).mean(axis=0)
    assert (between / within).max() < 2


def test_the_second_time_reads_the_cache(tmp_path, monkeypatch):
    first = toycars(data_dir=tmp_path, **SMALL)
    monkeypatch.setattr(module, "render", never)
    second = toycars(data_dir=tmp_path, **SMALL)
    assert pictures(second) == pictures(first)
    np.testing.assert_array_equal(second.train.labels, first.train.labels)
    np.testing.assert_array_equal(second.test.labels, first.test.labels)
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(RuntimeError, match="rendered again"):
        toycars(data_dir=tmp_path, **{**SMALL, "image_size": 25})


@pytest.mark.parametrize("changed", [{"classes": 7}, {"images_per_class": 4}, {"image_size": 25}, {"seed": 1}])
def test_other_arguments_use_another_cache_file(tmp_path, changed):
    toycars(data_dir=tmp_path, **SMALL)
    toycars(data_dir=tmp_path, **{**SMALL, **changed})
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: content[:3000] + bytes([content[3000] ^ 1]) + content[3001:],
        lambda content: b"no cache at all" * 100,
    ],
    ids=["truncated", "empty", "bit flipped", "another file"],
)
def test_a_damaged_cache_is_rendered_again(tmp_path, caplog, damage):
    first = pictures(toycars(data_dir=tmp_path, **SMALL))
    (path,) = tmp_path.iterdir()
    intact = path.read_bytes()
    path.write_bytes(damage(intact))
    assert pictures(toycars(data_dir=tmp_path, **SMALL)) == first
    assert f"The toycars cache {path} is damaged and will be rendered again." in caplog.messages
    assert path.read_bytes() == intact


def test_an_interrupted_rendering_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "render", never)
    with pytest.raises(RuntimeError, match="rendered again"):
        toycars(data_dir=tmp_path, **SMALL)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_fails_before_rendering(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "render", never)
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(OSError, match="Cannot write the toycars cache .* Pass another data_dir"):
        toycars(data_dir=tmp_path / "file", **SMALL)


@pytest.mark.parametrize("data_dir", ["", None])
def test_without_a_folder_the_users_cache_is_used(tmp_path, monkeypatch, data_dir):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    toycars(data_dir=data_dir, **SMALL)
    assert len(list((tmp_path / "tfdml").iterdir())) == 1
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    toycars(data_dir=data_dir, **SMALL)
    assert len(list((tmp_path / "home" / ".cache" / "tfdml").iterdir())) == 1


def test_every_body_has_deciding_parts_of_its_own():
    assert DECIDING_PARTS.keys() == BODIES.keys()
    assert len(set(DECIDING_PARTS.values())) == len(BODIES)


@pytest.mark.parametrize("classes", [2, 41, MOST_CLASSES])
def test_classes_differ_in_the_deciding_parts_alone(classes):
    chosen = grouped_designs(Design, classes, seed=3)
    assert len(set(chosen)) == len(chosen) == classes
    for design in chosen:
        assert {part for part in PARTS if getattr(design, part) is not None} == set(DECIDING_PARTS[design.body])


def test_groups_are_of_equal_size_and_side_by_side_in_each_half():
    bodies = [design.body for design in grouped_designs(Design, 200, seed=0)]
    assert set(Counter(bodies).values()) == {25}
    for half in (bodies[:100], bodies[100:]):
        assert set(Counter(half).values()) <= {12, 13}
        assert len([1 for one, next_one in zip(half, half[1:], strict=False) if one != next_one]) == 7


def test_other_parts_vary_and_deciding_ones_stay():
    design = grouped_designs(Design, 8, seed=0)[0]
    drawn = [completed(design, np.random.default_rng(seed)) for seed in range(200)]
    for part in PARTS:
        kinds = {getattr(each, part) for each in drawn}
        assert kinds == ({getattr(design, part)} if part in DECIDING_PARTS[design.body] else set(PARTS[part]))


def test_the_dataset_has_the_groups_and_pictures_of_its_own(tmp_path):
    size = {"classes": 16, "images_per_class": 2, "image_size": 16, "data_dir": tmp_path}
    dataset, plain = toycars(grouped=True, **size), toycars(**size)
    names = dataset.train.class_names
    assert dataset.train.class_groups == {label: name.split(", ")[0] for label, name in names.items()}
    assert plain.train.class_groups is None
    assert not set(dataset.train.images) & set(plain.train.images)
    # From the cache.
    np.testing.assert_array_equal(toycars(grouped=True, **size).test.images, dataset.test.images)


def test_too_many_classes_are_told(tmp_path):
    with pytest.raises(ValueError, match=f"at most {MOST_CLASSES} classes. Received: classes={MOST_CLASSES + 1}"):
        toycars(grouped=True, classes=MOST_CLASSES + 1, data_dir=tmp_path)
