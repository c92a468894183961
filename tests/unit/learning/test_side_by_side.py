"""Items worked off in threads of this process: results in order, and an interruption that ends."""

from __future__ import annotations

import os
import signal
import time

import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning import side_by_side as here
from slurm_rl_plugin.learning.side_by_side import side_by_side
from tests.fakes.ctrl_c import ctrl_c_is_heard


def test_results_come_in_the_order_of_the_items_and_are_told_as_they_come() -> None:
    told: list[tuple[int, int]] = []
    found = side_by_side(
        lambda item: 3 * item, range(5), finished=lambda place, result: told.append((place, result))
    )
    assert found == [0, 3, 6, 9, 12]
    assert sorted(told) == list(enumerate(found))


def test_after_an_interruption_nothing_more_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "processors_here", lambda: 1)
    begun: list[int] = []

    def slowly(item: int) -> int:
        begun.append(item)
        if len(begun) == 1:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)
        return item

    with ctrl_c_is_heard(), pytest.raises(KeyboardInterrupt):
        side_by_side(slowly, range(8))
    assert len(begun) <= 2


def test_a_fault_ends_all_after_what_is_done_was_told() -> None:
    told: list[int] = []

    def refuse(item: int) -> int:
        if item == 1:
            raise ConfigurationError("no.")
        return item

    with pytest.raises(ConfigurationError, match="no"):
        side_by_side(refuse, range(2), finished=lambda place, _: told.append(place))
    assert told == [0]
