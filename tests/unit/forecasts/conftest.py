"""The site that most tests of live forecasts share."""

from __future__ import annotations

import pytest

from slurm_rl_plugin.units import HOUR
from tests.unit.forecasts.live_site import LiveSite, busy_look, last_days, live_site


@pytest.fixture(scope="session")
def site() -> LiveSite:
    return live_site()


@pytest.fixture(scope="session")
def now(site: LiveSite) -> float:
    """When several jobs wait."""
    return busy_look(site, last_days(site, 2.0, HOUR))
