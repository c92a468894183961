"""Tables for people: waits in units that can be read."""

from __future__ import annotations

import pytest

from slurm_rl_plugin.cli.tables import waiting_time
from slurm_rl_plugin.readable import span_text


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, None),
        (374.324, 374.324),
        (10_799.0, 10_799.0),
        (10_800.0, "3.0 h"),
        (-20_000.0, "-5.6 h"),
        (172_799.0, "48.0 h"),
        (172_800.0, "2.0 d"),
        (41_132_002.0, "476.1 d"),
        (float("nan"), pytest.approx(float("nan"), nan_ok=True)),
    ],
)
def test_long_waits_are_told_in_hours_and_days(seconds: float | None, shown: object) -> None:
    assert waiting_time(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0 s"),
        (119.0, "119 s"),
        (120.0, "2 min"),
        (-7199.0, "-120 min"),
        (7200.0, "2.0 h"),
        (172_799.0, "48.0 h"),
        (41_132_002.0, "476.1 d"),
        (float("nan"), "-"),
        (float("inf"), "-"),
    ],
)
def test_spans_have_the_unit_that_people_would_say(seconds: float, shown: str) -> None:
    assert span_text(seconds) == shown
