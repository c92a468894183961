"""One registry of names: each is taken everywhere, or says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.policies.registry import (
    NAMED_POLICIES,
    NATIVE,
    SHIPPED_MODELS,
    PolicyKind,
    known_names,
    named_policy,
)
from slurm_rl_plugin.services.hook import check_model_file, load_policy

ONLY_LOGS = [each.name for each in NAMED_POLICIES.values() if each.needs_log]


def test_names_are_those_of_their_kinds() -> None:
    assert named_policy("sjf") == NAMED_POLICIES["sjf"]
    assert named_policy("wfp3").kind is PolicyKind.WAITING
    assert named_policy("reserve:12").reserve == 12
    assert named_policy("reserve:12").live().reserve == 12
    for text in (
        "lifo",
        "reserve:",
        "reserve:-1",
        "reserve:x",
        "default.onnx",
        "./default",
        "protected:sjf",
        "",
    ):
        assert named_policy(text) is None


def test_what_orders_logs_only_says_why() -> None:
    assert set(ONLY_LOGS) == {
        "f1", "sjf-predicted", "saf-predicted", "wspt-predicted", NATIVE
    }  # fmt: skip
    for name in ONLY_LOGS:
        for ask in (load_policy, check_model_file):
            with pytest.raises(ConfigurationError, match=rf"{name} orders no live queue: it"):
                ask(name)


def test_known_names_are_what_may_be_given() -> None:
    assert set(known_names(live=False)) == {*NAMED_POLICIES, "reserve:N"}
    assert set(known_names(live=True)) == {*NAMED_POLICIES, "reserve:N"} - set(ONLY_LOGS)
    assert known_names(live=True)[-len(SHIPPED_MODELS) :] == list(SHIPPED_MODELS)


def test_a_model_is_no_rule() -> None:
    with pytest.raises(ConfigurationError, match="policy default is a model and no rule"):
        NAMED_POLICIES["default"].live()


@pytest.mark.parametrize("name", ["lifo", "sjff"])
def test_a_slip_in_a_name_is_told_with_the_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=rf"unknown policy '{name}'.* sjf, .*default"):
        check_model_file(name)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        check_model_file(str(tmp_path / name))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        check_model_file(f"{name}.onnx")
