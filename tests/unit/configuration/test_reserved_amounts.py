"""Amounts of resources in [reserve], and what is wrong with them."""

from __future__ import annotations

import pytest

from slurm_rl_plugin.configuration.sections import reserved_amounts


def test_words_of_slurm_and_of_pbs() -> None:
    assert reserved_amounts(["gres/gpu=2", "mem=64G"]) == {"gpus": 2, "memory": 65536}
    assert reserved_amounts(["ngpus=12", "mem=1500mb"]) == {"gpus": 12, "memory": 1500}
    assert reserved_amounts([]) == {}


@pytest.mark.parametrize(
    "words",
    [
        ["cpu=3"],
        ["gpus"],
        ["gpus=0"],
        ["gpus=-1"],
        ["gpus=2K"],
        ["mem=0"],
        ["mem=x"],
        ["gpus=1"] * 2,
    ],
)
def test_others_are_refused(words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        reserved_amounts(words)
