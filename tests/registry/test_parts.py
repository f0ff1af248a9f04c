"""Parts are registered by name and created from specs; a name that does not exist is answered with a near one."""

import importlib
import pickle
import re

import keras
import pytest

import tfdml
from tfdml import registry
from tfdml.registry import arguments
from tfdml.registry.specs import SpecError


@pytest.fixture
def things(monkeypatch):
    """A kind of its own, `thing`, that holds what the test registers."""
    monkeypatch.setitem(registry.ROOMS, "thing", "tfdml.registry")
    monkeypatch.setitem(registry.parts._registered, "thing", {})

    @registry.register("thing", "box")
    def box(width, height=2, *, colour="red", size=None, **others):
        """Makes a box.

        Not the summary.
        """
        return ("box", width, height, colour, size, others)

    @registry.register("thing", "nothing")
    def nothing():
        return ("nothing",)


@pytest.mark.parametrize("spec", ["box(width=1)", "box(width=1, height=5)"])
def test_an_offer_with_an_effect(things, spec):
    registry.check_effect("thing", spec, "height", 5, "--height")
    assert registry.create("thing", spec, height=5)[2] == 5


def test_whether_a_spec_takes_an_argument(things):
    assert registry.takes("thing", "box(width=1)", "height") and not registry.takes("thing", "nothing", "height")
    with pytest.raises(ValueError, match="Unknown thing 'bx'"):
        registry.takes("thing", "bx", "height")


@pytest.mark.parametrize(
    "spec, told",
    [
        ("nothing", "'nothing' has no argument 'height', which --height sets. Its arguments: none"),
        ("box(width=1, height=4)", "sets height=4, and --height sets 5. Set only --height"),
    ],
)
def test_an_offer_without_effect(things, spec, told):
    with pytest.raises(ValueError, match=told):
        registry.check_effect("thing", spec, "height", 5, "--height")
    registry.create("thing", spec, height=5)


class TestFirstArgumentWithoutItsName:
    @pytest.fixture(autouse=True)
    def wrap(self, things):
        @registry.register("thing", "wrap")
        def wrap(what, /, **others):
            """Wraps what stands first."""
            return what, others

    def test_it_is_handed_over(self):
        chain = "wrap('paper', colour='red')|nothing|wrap((1, 2))"
        assert registry.create_chain("thing", chain) == [("paper", {"colour": "red"}), ("nothing",), ((1, 2), {})]

    def test_offers_are_for_things_that_name_their_arguments(self):
        assert registry.create("thing", "wrap('paper')", size=3) == ("paper", {})

    @pytest.mark.parametrize(
        "spec, message",
        [
            ("wrap", r"of the thing 'wrap' must be its what, without a name. Write wrap\('...', argument=value\)"),
            ("wrap(colour='red')", "must be its what, without a name"),
            ("wrap('paper', 'red')", r"need names. Write wrap\(argument=value\)"),
            ("wrap(*['paper'])", "The first argument of wrap.*not a literal"),
            ("wrap(paper)", "The first argument of wrap in .* is not a literal.*Did you mean 'paper'"),
            ("wrap('paper')|box(3)", r"need names. Write box\(argument=value\)"),
        ],
    )
    def test_anything_else_is_told(self, spec, message):
        with pytest.raises(ValueError, match=message):
            registry.create_chain("thing", spec)

    def test_it_is_described(self):
        assert "wrap(what): Wraps what stands first." in registry.describe("thing")


@pytest.mark.parametrize(
    "value",
    [
        "__import__('os').mkdir({path!r})",
        "(lambda: open({path!r}, 'w'))()",
        "[open({path!r}, 'w') for _ in (1,)]",
        "open({path!r}, 'w')",
        'f"{{open({path!r}, chr(119))}}"',
        "(open({path!r}, 'w'),)",
        "{{1: open({path!r}, 'w')}}",
    ],
)
def test_code_is_refused_and_not_run(things, tmp_path, value):
    path = str(tmp_path / "made")
    code = value.format(path=path)
    # The code does run where it is evaluated, so that its absence below means something.
    eval(code)
    assert (tmp_path / "made").exists()
    (tmp_path / "made").unlink() if (tmp_path / "made").is_file() else (tmp_path / "made").rmdir()
    for text in (f"box(width={code})", code, f"nothing|box(width={code})"):
        with pytest.raises(ValueError):
            registry.create_chain("thing", text)
    assert not (tmp_path / "made").exists()


def test_create(things):
    assert registry.create("thing", "box(width=3)") == ("box", 3, 2, "red", None, {})
    assert registry.create("thing", "box(width=3, height=4, colour='blue')") == ("box", 3, 4, "blue", None, {})
    assert registry.create("thing", "nothing") == ("nothing",)


def test_offers_fill_in_what_the_thing_takes_and_the_spec_leaves_open(things):
    offers = {"width": 7, "size": 9, "others": 1, "unknown": 2}
    assert registry.create("thing", "box", **offers) == ("box", 7, 2, "red", 9, {})
    assert registry.create("thing", "box(width=1, size=None)", **offers) == ("box", 1, 2, "red", None, {})
    assert registry.create("thing", "nothing", **offers) == ("nothing",)


def test_chains_keep_their_order(things):
    made = registry.create_chain("thing", "box(width=1)|nothing|box(height=3)", width=5)
    assert [(step[0], step[1:3]) for step in made] == [("box", (1, 2)), ("nothing", ()), ("box", (5, 3))]
    with pytest.raises(ValueError, match="Expected one thing. Received: a chain of 2, 'box|nothing'"):
        registry.create("thing", "box|nothing")


@pytest.mark.parametrize(
    "spec, parts",
    [
        ("bx(width=1)", ["Unknown thing 'bx'.", "Did you mean 'box'?", "Known: box, nothing."]),
        ("box(widht=1)", ["'box' has no argument 'widht'", "Did you mean 'width'?", "width, height, colour, size"]),
        ("box(others=1)", ["'box' has no argument 'others'"]),
        ("nothing(x=1)", ["Its arguments: none."]),
        ("box(height=1)", ["The thing 'box' requires width. Write box(width=...)"]),
        ("box(3)", ["need names. Write box(argument=value). Received: 'box(3)'"]),
        ("box(1, height=2)", ["need names. Write box(argument=value). Received: 'box(1, height=2)'"]),
    ],
)
def test_wrong_names_and_missing_arguments_are_told(things, spec, parts):
    with pytest.raises(ValueError) as error:
        registry.create("thing", spec)
    for part in parts:
        assert part in str(error.value)


@pytest.mark.parametrize(
    "kind, written, meant",
    [
        ("backbone", "MobileNetV2", "\"keras_applications(name='MobileNetV2')\""),
        ("backbone", "mobilenet-v3", "\"keras_applications(name='MobileNetV3Large')\""),
        ("backbone", "ResNet50", '"resnet50" or "keras_applications(name=\'ResNet50\')"'),
        ("dataset", "photos.csv", "\"csv(path='photos.csv')\""),
        ("dataset", "a/features.npz", "\"embeddings(path='a/features.npz', test_classes=0.3)\""),
        ("dataset", "a.npy", "\"embeddings(path='a.npy', labels='labels.npy', test_classes=0.3)\""),
        ("dataset", "CUB-200-2011", "'cub200'"),
        ("dataset", "Market-1501", "'market1501'"),
        ("optimizer", "0.001", '"adam(learning_rate=0.001)"'),
        ("optimizer", "1e-4", '"adam(learning_rate=1e-4)"'),
        ("sampler", "64", '"pxk(classes=16, per_class=4)"'),
        ("sampler", "50", '"uniform(batch_size=50)"'),
        ("loss", "proxy-anchor", "'proxy_anchor'"),
        ("loss", "Multi Similarity Loss", "'multi_similarity'"),
    ],
)
def test_short_forms_name_the_spec_that_is_meant(kind, written, meant):
    with pytest.raises(ValueError) as error:
        registry.create(kind, written)
    assert str(error.value) == f"{written!r} is not a {kind} spec. Did you mean {meant}?"
    for spec in meant.split(" or "):
        assert registry.parse(spec.strip("\"'"))[0][0] in registry.names(kind)


def test_the_path_of_a_folder_names_the_dataset_of_a_folder(tmp_path):
    told = f'Did you mean "folder{{}}" with --data_dir={tmp_path}?'
    with pytest.raises(ValueError, match=re.escape(told.format("(test_classes=0.3)"))):
        registry.create("dataset", str(tmp_path))
    (tmp_path / "test").mkdir()
    with pytest.raises(ValueError, match=re.escape(told.format(""))):
        registry.create("dataset", str(tmp_path))


def test_an_error_knows_the_whole_spec_and_other_kinds_of_errors_stay_as_they_are(things):
    @registry.register("thing", "broken")
    def broken(kind=""):
        if kind == "file":
            raise FileNotFoundError("no file")
        registry.create("thing", "box(width=(")

    for spec in ("box|bx", "box(height=1)|nothing", "broken"):
        with pytest.raises(SpecError) as error:
            registry.create_chain("thing", spec)
        assert error.value.spec == spec
        again = pickle.loads(pickle.dumps(error.value))
        assert (str(again), again.spec) == (str(error.value), spec)
    with pytest.raises(FileNotFoundError, match="^no file$"):
        registry.create("thing", "broken(kind='file')")


def test_nothing_is_suggested_for_what_is_not_near(things):
    with pytest.raises(ValueError) as error:
        registry.create("thing", "qqqqqq")
    assert "Did you mean" not in str(error.value) and "Known: box, nothing." in str(error.value)


def test_unknown_kind_lists_the_kinds():
    with pytest.raises(ValueError, match="Unknown kind 'los'. Did you mean 'loss'"):
        registry.register("los", "mine")(lambda: None)
    with pytest.raises(ValueError, match="Unknown kind 'colour'. Known: .*loss"):
        registry.create("colour", "red")


def test_a_name_is_given_once(things):
    with pytest.raises(ValueError, match="The thing name 'box' is already used by .*box.*other with another"):

        @registry.register("thing", "box")
        def other():
            pass

    assert registry.names("thing") == ["box", "nothing"]


def test_reloading_a_module_may_name_its_things_again(things):
    def twice():
        pass

    for _ in range(2):
        registry.register("thing", "twice")(twice)
    assert registry.names("thing") == ["box", "nothing", "twice"]


def test_what_has_a_config_is_registered_with_keras(things):
    @registry.register("thing", "saved")
    class SavedThing:
        def get_config(self):
            return {}

        @classmethod
        def from_config(cls, config):
            return cls()

    assert keras.saving.get_registered_object("tfdml>SavedThing") is SavedThing
    written = keras.saving.serialize_keras_object(SavedThing())
    assert written["registered_name"] == "tfdml>SavedThing"
    assert isinstance(keras.saving.deserialize_keras_object(written), SavedThing)


def test_describe_lists_arguments_defaults_and_summary(things):
    assert registry.describe("thing") == ["box(width, height=2, colour='red', size=None): Makes a box.", "nothing(): "]


@pytest.mark.parametrize("kind", registry.ROOMS)
def test_every_kind_has_things_with_a_summary(kind):
    lines = registry.describe(kind)
    assert lines and len(lines) == len(registry.names(kind))
    for name, line in zip(registry.names(kind), lines, strict=True):
        arguments, summary = line.split("): ", 1)
        assert arguments.startswith(f"{name}(") and summary


def test_a_new_file_in_a_room_is_found_by_name(things, monkeypatch, tmp_path):
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse/__init__.py").write_text('"""Things."""')
    (tmp_path / "warehouse/crate.py").write_text(
        "from tfdml.registry import register\n\n\n@register('thing', 'crate')\ndef crate(width=3):\n    return width\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(registry.ROOMS, "thing", "warehouse")
    assert registry.create("thing", "crate(width=5)") == 5
    assert registry.names("thing") == ["box", "crate", "nothing"]


def test_annotations_of_all_kinds_are_taken_or_left(things):
    @registry.register("thing", "annotated")
    def annotated(folder: str, words: "for people" = 1, count: int = None, *sizes: int, **options: bool):  # noqa: F722
        return folder, count, sizes, options

    assert annotated("", 1, None, 1, 2, a=True) == ("", None, (1, 2), {"a": True})
    with pytest.raises(ValueError, match="expects folder to be text. Received: folder=3"):
        annotated(3)
    with pytest.raises(ValueError, match="expects count to be None or an integer. Received: count=1.5"):
        annotated("", count=1.5)


@pytest.mark.parametrize(
    "written, meant",
    [
        ("Triplet", "tfdml.losses.Triplet"),
        ("TripletLoss", "tfdml.losses.Triplet"),
        ("losses.TripletLoss", "tfdml.losses.Triplet"),
        ("losses.proxy_anchor_loss", "tfdml.losses.ProxyAnchor"),
        ("losses.NTXentLoss", "tfdml.losses.NTXent"),
        ("backbones.ResNet50", "tfdml.backbones.ResNet(50), or its KerasApplication('ResNet50')"),
        ("backbones.resnet18", "tfdml.backbones.ResNet(18)"),
        ("backbones.MobileNetV2", "tfdml.backbones.KerasApplication('MobileNetV2')"),
        ("MobileNetV2", "tfdml.backbones.KerasApplication('MobileNetV2')"),
        ("method", "tfdml.methods"),
        ("xyz", None),
    ],
)
def test_a_name_that_is_not_there(written, meant):
    path, _, name = f"tfdml.{written}".rpartition(".")
    hint = rf" Did you mean {meant}\?$" if meant else r"\.$"
    hint = hint.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(AttributeError, match=f"^module '{path}' has no attribute '{name}'.*{hint}"):
        getattr(importlib.import_module(path), name)


@pytest.mark.parametrize(
    "module, meant",
    [("losses.triplet", "losses.Triplet"), ("losses.n_pair", "losses.NPair"), ("losses.margin", "losses.Margin")],
)
def test_a_module_that_is_called(module, meant):
    with pytest.raises(TypeError, match=rf"^tfdml.{module} is a module, not a class. Did you mean tfdml.{meant}\?$"):
        importlib.import_module(f"tfdml.{module}")(margin=0.2)


def test_what_stands_in_place_of_the_names_of_keras_can_be_made():
    assert {"ResNet50", "EfficientNetV2B0"} <= {name for name in vars(keras.applications) if name[0].isupper()}
    assert tfdml.backbones.INSTEAD.keys() >= {name for name in vars(keras.applications) if name[0].isupper()}
    assert tfdml.backbones.ResNet(18).name == "resnet18"
    assert tfdml.backbones.KerasApplication("MobileNetV2").name == "mobilenetv2"


def test_a_suggestion_is_the_same_but_for_spelling_before_it_is_similar():
    assert arguments.nearest("ResNet50", ["resnet18", "resnet50"]) == " Did you mean 'resnet50'?"
    assert arguments.nearest("proxyanchor", ["proxy_nca", "proxy_anchor"]) == " Did you mean 'proxy_anchor'?"
    assert arguments.nearest("MobileNetV2", ["googlenet"]) == "" == arguments.meant("_repr_html_", tfdml.losses)
