"""Keys that a reload cannot take over stay what they were, and are named."""

from __future__ import annotations

from slurm_rl_plugin.configuration import (
    KEYS,
    changed_start_keys,
    with_start_values,
)
from tests.unit.configuration.given_content import configuration_of

#: What a running daemon holds open, has built once or has to take back on its way out.
AT_START = {"state_file", "queue_file", *KEYS["metrics"]}


def test_keys_of_the_start() -> None:
    assert {
        name for keys in KEYS.values() for name, key in keys.items() if key.at_start
    } == AT_START


def test_a_reload_takes_over_all_but_keys_of_the_start() -> None:
    running = configuration_of({"metrics": {"port": 1}, "hook": {"cycle": 5}})
    fresh = configuration_of({"metrics": {"port": 2}, "hook": {"cycle": 6, "state_file": "/x"}})
    taken = with_start_values(running, fresh)
    assert taken.values["metrics"]["port"] == 1
    assert taken.values["hook"]["state_file"] == running.values["hook"]["state_file"]
    assert taken.values["hook"]["cycle"] == 6
    assert changed_start_keys(running, fresh) == [("hook", "state_file"), ("metrics", "port")]
    assert changed_start_keys(running, running) == []
    assert fresh.values["metrics"]["port"] == 2  # it is not changed in place
