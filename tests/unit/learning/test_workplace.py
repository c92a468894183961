"""Items worked off in threads of this process: results in order, and an interruption that ends."""

from __future__ import annotations

import os
import signal
import time

import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning import workplace
from slurm_rl_plugin.learning.workplace import ThisMachine
from tests.fakes.ctrl_c import ctrl_c_is_heard


def nothing(shared: object) -> None:
    del shared


def test_looks_tell_results_as_they_come_in_the_order_of_the_items() -> None:
    looks: list[list[int | None]] = []
    found = ThisMachine().each(
        lambda shared, item: shared * item,
        3,
        range(5),
        warm_up=nothing,
        on_look=lambda results: looks.append(list(results)),
    )
    assert found == [0, 3, 6, 9, 12]
    assert looks[-1] == found
    assert all(
        told in (None, whole) for look in looks for told, whole in zip(look, found, strict=True)
    )


@pytest.mark.parametrize("looks", [True, False])
def test_after_an_interruption_nothing_more_begins(
    monkeypatch: pytest.MonkeyPatch, looks: bool
) -> None:
    monkeypatch.setattr(workplace, "processors_here", lambda: 1)
    begun: list[int] = []

    def slowly(shared: object, item: int) -> int:
        begun.append(item)
        if len(begun) == 1:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)
        return item

    with ctrl_c_is_heard(), pytest.raises(KeyboardInterrupt):
        ThisMachine().each(
            slowly, None, range(8), warm_up=nothing, on_look=(lambda told: None) if looks else None
        )
    assert len(begun) <= 2


def test_a_fault_ends_all_after_what_is_done_was_told() -> None:
    told: list[object] = []

    def refuse(shared: object, item: int) -> int:
        if item == 1:
            raise ConfigurationError("no.")
        return item

    with pytest.raises(ConfigurationError, match="no"):
        ThisMachine().each(refuse, None, range(2), warm_up=nothing, on_look=told.append)
    assert told
