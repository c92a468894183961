"""Forecasts made from the looks of a run as the service makes them, each by what was known then."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.configuration.reading.precedence import read_configuration
from slurm_rl_plugin.domain.queue_file import QueueOnFile, read_queue
from slurm_rl_plugin.forecasts.live.kept_forecasts import GivenRows, KeptForecasts
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.services.forecast_service import build_forecaster, build_orders
from slurm_rl_plugin.units import HOUR
from tests.bench.start_hours.accounted import ended_by
from tests.bench.start_hours.kept_looks import looks_in
from tests.bench.start_hours.stretched import SPEED, stretched, stretched_classes, stretched_machine

#: Accounting is read again so often, seconds of the log, as the service does.
_READ_EVERY = HOUR
#: Seconds that one more reading of the clock of durations costs: none, so that each forecast has
#: all its replays however busy the machine is.
_TICK = 1e-6
#: More forecasts than a run has.
_ALL = 10**7


def read_looks(folder: Path) -> list[QueueOnFile]:
    """The looks of a run, each once, in order of time and in the run's own time."""
    found: dict[float, QueueOnFile] = {}
    for path in looks_in(folder):
        look = read_queue(path)
        found[look.snapshot.now] = look
    return [found[now] for now in sorted(found)]


def foretold(
    looks: list[QueueOnFile],
    log: Callable[[float], JobLog],
    folder: Path,
    kept_file: Path,
    draws: int,
    most: int,
    progress: Callable[[int, int], None],
) -> GivenRows:
    """Forecasts of the jobs of a run; the start of each is what looks told of it, nan for nothing.

    Looks are foretold that have a job which was not seen waiting before, and one an hour of the
    log; of these so many at most, evenly in time.

    Args:
        looks: of the run, in its own time.
        log: what accounting tells of the whole run, stretched about an instant.
        folder: with the cluster's and the daemon's configuration.
        kept_file: for forecasts; must not be there.
        draws: replays of each look.
        most: looks that are foretold.
        progress: told the looks done and how many there are.
    """
    origin = looks[0].snapshot.now
    configuration = read_configuration(folder / "hook" / "slurm-rl.toml")
    classifier = stretched_classes(configuration.classifier)
    machine, whole = stretched_machine(read_machine(folder)), log(origin)
    kept, orders = KeptForecasts(kept_file), build_orders(configuration)
    forecaster = build_forecaster(configuration, "slurm", kept)
    forecaster.draws, forecaster.monotonic = draws, itertools.count(0.0, _TICK).__next__
    read, history, due = -np.inf, None, _due(looks, most)
    for number, place in enumerate(due):
        look, snapshot = looks[place], stretched(looks[place].snapshot, origin)
        if snapshot.now - read >= _READ_EVERY:
            history, read = ended_by(whole, snapshot.now, machine, classifier), snapshot.now
        if history is not None:
            forecaster.source = replace(forecaster.source, order=orders.of(look))
            forecaster.foretell(history, snapshot)
        progress(number + 1, len(due))
    forecaster.settle(stretched(looks[-1].snapshot, origin))
    rows = kept.rows(0.0, most=_ALL)
    kept.close()
    return rows


def _due(looks: list[QueueOnFile], most: int) -> list[int]:
    """Places of the looks that are to be foretold."""
    seen, last, found = set[int](), -np.inf, []
    for place, look in enumerate(looks):
        jobs = set(look.snapshot.pending.jobs.job_id.tolist())
        now = look.snapshot.now
        if jobs and (not jobs <= seen or now - last >= HOUR / SPEED):
            found.append(place)
            seen, last = seen | jobs, now
    if len(found) <= most:
        return found
    return [found[each] for each in np.linspace(0, len(found) - 1, most).astype(int).tolist()]
