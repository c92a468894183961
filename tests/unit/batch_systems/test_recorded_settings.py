"""Settings and load of slurmctld, as real Slurm releases print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm_load import parse_load
from slurm_rl_plugin.batch_systems.slurm_settings import MULTIFACTOR, parse_settings

RELEASES = sorted(
    path for path in Path(__file__).parents[2].glob("assets/slurm/*") if path.is_dir()
)


@pytest.mark.parametrize("answers", RELEASES, ids=lambda path: path.name)
def test_settings(answers: Path) -> None:
    settings = parse_settings((answers / "config.txt").read_text())
    assert settings.release.startswith(f"{answers.name}.")
    assert (settings.priority_type, settings.site_factor_plugin) == (MULTIFACTOR, "")
    assert (settings.age_weight, settings.highest_age, settings.weights) == (1000, 86400, 12000)
    assert (settings.pass_interval, settings.controller) == (1.0, "head")
    assert "bf_continue" in settings.scheduler


@pytest.mark.parametrize("answers", RELEASES, ids=lambda path: path.name)
def test_load(answers: Path) -> None:
    load = parse_load((answers / "sdiag.txt").read_text())
    assert load.struggles is None
    submitted, started, completed, canceled, failed = load.events
    assert submitted > started >= 3
    assert completed == 2
    assert canceled == failed == 0
