"""Three steps on all GPUs are those on one."""

import pytest

from tests.test_distribution import FIRST, OTHERS, check_same_weights, three_steps


@pytest.mark.parametrize("cases", [FIRST, OTHERS], ids=["first", "others"])
def test_same_weights_as_one_device(cases, kind, count, tmp_path_factory):
    if count < 2:
        pytest.skip("One GPU cannot be compared with several.")
    devices = kind.lower()
    # The batch splits evenly over 2 and over 4.
    replicas = count // 2 * 2
    one = three_steps(f"{devices}:1", tmp_path_factory.mktemp("one"), cases)
    several = three_steps(f"{devices}:{replicas}", tmp_path_factory.mktemp("several"), cases)
    for case in cases:
        check_same_weights(several, one, case, replicas)
