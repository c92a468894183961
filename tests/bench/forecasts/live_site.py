"""Scores live forecasts of a small simulated site.

    python -m tests.bench.forecasts.live_site [--days 4]

First come, first served with EASY backfilling; limits are about four times the run times. Forecasts
are made for forty past times first, as the service does, and then every half hour.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.forecasts.live.forecast_queue import scores_document
from slurm_rl_plugin.units import HOUR
from tests.unit.forecasts.live_site import last_days, live_site, looked_back

_EVERY = HOUR / 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes forecasts, scores and prints them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=4.0, help="days of forecasts")
    parser.add_argument("--load", type=float, default=1.0)
    chosen = parser.parse_args(arguments)
    site = live_site(24.0, load=chosen.load)
    looks = last_days(site, chosen.days, _EVERY).tolist()
    with tempfile.TemporaryDirectory() as folder, parts_bar("looks", len(looks)) as add:
        forecaster = looked_back(Path(folder), site, looks[0])
        last = looks[0] - _EVERY
        for now in looks:
            forecaster.forecast(site.history(now), site.queue(now, last))
            last = now
            add(1)
        rows = forecaster.kept.rows(looks[0])
        print(json.dumps(scores_document(rows, last), indent=2))
        forecaster.kept.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
