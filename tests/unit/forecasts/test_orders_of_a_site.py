"""The order in which a live queue is played forward: the policy's, its fallback's or the site's."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.configuration.reading import read_configuration
from slurm_rl_plugin.domain.queue_file import QueueOnFile
from slurm_rl_plugin.forecasts.live.sources import own_order
from slurm_rl_plugin.services.forecast_service import build_orders
from tests.unit.hook.queues import pending_jobs, snapshot_of


@pytest.mark.parametrize(("fallback", "is_own"), [("site", True), ("fifo", False)])
def test_while_the_policy_is_not_used_the_order_is_that_of_its_fallback(
    tmp_path: Path, fallback: str, is_own: bool
) -> None:
    (tmp_path / "slurm-rl.toml").write_text(f'[policy]\nmodel = "sjf"\nfallback = "{fallback}"\n')
    orders = build_orders(read_configuration(tmp_path / "slurm-rl.toml"))
    look = QueueOnFile(snapshot=snapshot_of(pending_jobs([])), mode="fallback", policy=fallback)
    assert (orders.of(look) is own_order) == is_own
