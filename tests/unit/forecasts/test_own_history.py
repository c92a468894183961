"""Accounting that tells nothing at first is asked again soon."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.kind import Presence
from slurm_rl_plugin.batch_systems.registry import BATCH_SYSTEMS
from slurm_rl_plugin.configuration.reading import read_configuration
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.errors import BatchSystemUnavailable, ConfigurationError, SlurmRLError
from slurm_rl_plugin.services import forecast_service
from slurm_rl_plugin.services.forecast_service import OwnHistory


def test_a_history_that_cannot_be_read_is_tried_again_after_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slurm-rl.toml").write_text(f'[forecast]\nlog = "{tmp_path}/none.log"\n')
    history = OwnHistory(
        configuration=read_configuration(tmp_path / "slurm-rl.toml"), kind=BATCH_SYSTEMS["slurm"]
    )
    clock, asked = [0.0], list[float]()
    monkeypatch.setattr(forecast_service.time, "monotonic", lambda: clock[0])
    log = OwnHistory._log
    monkeypatch.setattr(OwnHistory, "_log", lambda self: (asked.append(clock[0]), log(self))[1])
    monkeypatch.setattr(OwnHistory, "_machine", lambda self: None)
    for clock[0] in (0.0, 30.0, 61.0):
        assert history.known(4) is None
    assert asked == [0.0, 61.0]


@pytest.mark.parametrize("error", [BatchSystemUnavailable("no answer"), ConfigurationError("odd")])
def test_a_machine_that_is_not_told_leaves_a_history_of_processors(
    tmp_path: Path, error: SlurmRLError
) -> None:
    def machine(seconds: float) -> Machine:
        del seconds
        raise error

    (tmp_path / "slurm-rl.toml").write_text("")
    here = Presence(is_here=True, sign="", lacks="", is_configured=True, lacks_configuration="")
    history = OwnHistory(
        configuration=read_configuration(tmp_path / "slurm-rl.toml"),
        kind=replace(BATCH_SYSTEMS["slurm"], machine=machine, presence=lambda environment: here),
    )
    assert history._machine() is None
