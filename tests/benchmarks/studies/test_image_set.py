"""The command line of sets that are put together for studies."""

import pytest

from benchmarks.studies import emoji_set, omniglot_set

SETS = [(emoji_set, "sources"), (omniglot_set, "source")]


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("image_set, flag", SETS)
def test_it_tells_whether_the_set_is_that_of_the_studies(image_set, flag, equal, monkeypatch, tmp_path, capsys):
    checksum = image_set.CHECKSUM if equal else "abc"
    monkeypatch.setattr(image_set, "write_set", lambda source, out: (8039, 1226, checksum))
    monkeypatch.setattr("sys.argv", ["image_set", f"--{flag}={tmp_path}", f"--out={tmp_path / 'set'}"])
    if equal:
        image_set.main()
    else:
        with pytest.raises(SystemExit, match="not those of the studies, in pixels or parts: checksum abc"):
            image_set.main()
    out = capsys.readouterr().out
    assert out.startswith("Wrote 8,039 images of 1,226 classes to ")
    assert ("are those of the studies" in out) == equal


def test_a_folder_that_exists_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["omniglot_set", f"--source={tmp_path}", f"--out={tmp_path}"])
    with pytest.raises(SystemExit, match="exists; give a new folder"):
        omniglot_set.main()
