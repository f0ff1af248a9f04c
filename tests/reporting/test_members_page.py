"""The page of an ensemble with members that still train."""

import json
import re

import pytest

from tests.commands import assert_one_error, run
from tfdml.console import flags
from tfdml.run.directory.run_record import EnsembleDirectory

EVALUATIONS = [0.1, 0.7, 0.6]


@pytest.fixture
def ensemble(tmp_path):
    """The folder of three members: one is complete, one was stopped, one has no flags yet."""
    for number, count in enumerate((3, 2)):
        member = tmp_path / f"member_{number:03}"
        member.mkdir()
        given = flags.resolve(["--steps=3000", f"--seed={number}"])
        (member / "flags.txt").write_text("".join(f"{line}\n" for line in given.values()))
        events = [
            {
                "event": "evaluation",
                "split": "test",
                "step": 1000 * place,
                "alignment": 1 - recall,
                "recall_at_1": recall,
            }
            for place, recall in enumerate(EVALUATIONS[:count])
        ]
        (member / "metrics.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    (tmp_path / "member_000" / "result.json").write_text(json.dumps({"step": 3000, "best": {"step": 1000}}))
    (tmp_path / "member_002").mkdir()
    return tmp_path


@pytest.mark.nightly
def test_members_that_are_not_joined_have_a_page(ensemble):
    path = ensemble / "report" / "index.html"
    done = run("tfdml.report", f"--run_dir={ensemble}")
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == f"Wrote {path}", done.stderr
    text = path.read_text(encoding="utf-8")
    assert "is not joined yet: 1 of 2 members that have started are complete." in text
    rows = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>.*?</tr>", text)]
    assert rows[:3] == [
        ["Member", "State", "Step", "of", "Best Recall@1 while training", "at step"],
        ["member_000", "complete", "3,000", "3,000", "70.0%", "1,000"],
        ["member_001", "stopped", "1,000", "3,000", "70.0%", "1,000"],
    ]
    (chart,) = re.findall(r'<figure class="chart">.*?</figure>', text, re.DOTALL)
    assert all(f"</svg>member_00{number}</li>" in chart for number in range(2))
    assert "<code>--seed" not in text and ["--seed", "<code>0</code>", "<code>1</code>"] in rows
    # The ensemble still trains in its folder.
    EnsembleDirectory(ensemble).check_claim(flags.resolve(["--members=3"]))
    done = run("tfdml.report", f"--run_dir={ensemble}", "--only=map")
    assert_one_error(done, "is not joined yet. Use one of its members instead, such as", "member_000")


def test_a_member_before_its_first_step_has_no_score(ensemble):
    for member in ("member_000", "member_001"):
        (ensemble / member / "metrics.jsonl").unlink()
    (ensemble / "member_000" / "result.json").unlink()
    done = run("tfdml.report", f"--run_dir={ensemble}", "--only=page", f"--out={ensemble}/page.html")
    assert done.returncode == 0, done.stderr
    text = (ensemble / "page.html").read_text(encoding="utf-8")
    assert "<td>stopped</td><td>0</td><td>3,000</td><td>–</td><td>–</td>" in text and 'id="training"' not in text
