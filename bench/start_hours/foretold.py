"""Forecasts made from the looks of a run as the service makes them, each by what was known then."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.start_hours.accounted import ended_by
from bench.start_hours.kept_looks import looks_in
from bench.start_hours.stretched import stretched, stretched_classes, stretched_machine
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.cli.forecasts.forecast_assembly import build_forecaster, build_orders
from slurm_rl_plugin.configuration.reading.precedence import read_configuration
from slurm_rl_plugin.domain.queue_file import QueueOnFile, read_queue
from slurm_rl_plugin.forecasts.live.kept_forecasts import GivenRows, KeptForecasts
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.units import HOUR

#: Accounting is read again so often, seconds of the log, as the service does.
_READ_EVERY = HOUR
#: Seconds that one more reading of the clock of durations costs: none, so that each forecast has
#: all its replays however busy the machine is.
_TICK = 1e-6


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
    progress: Callable[[int, int], None],
) -> GivenRows:
    """Forecasts of the jobs of a run; the start of each is what looks told of it, nan for nothing.

    A look is foretold where it has a job that was not seen waiting before, and once an hour of the
    log.

    Args:
        looks: of the run, in its own time.
        log: what accounting tells of the whole run, stretched about an instant.
        folder: with the cluster's and the daemon's configuration.
        kept_file: for forecasts; must not be there.
        draws: replays of each look.
        progress: told the looks done and how many there are.
    """
    origin = looks[0].snapshot.now
    configuration = read_configuration(folder / "hook" / "slurm-rl.toml")
    classifier = stretched_classes(configuration.classifier)
    machine, whole = stretched_machine(read_machine(folder)), log(origin)
    kept, orders = KeptForecasts(kept_file), build_orders(configuration)
    forecaster = build_forecaster(configuration, "slurm", kept)
    forecaster.draws, forecaster.monotonic = draws, itertools.count(0.0, _TICK).__next__
    seen, last, read, history = set[int](), -np.inf, -np.inf, None
    for number, look in enumerate(looks):
        snapshot = stretched(look.snapshot, origin)
        progress(number + 1, len(looks))
        if snapshot.now - read >= _READ_EVERY:
            history, read = ended_by(whole, snapshot.now, machine, classifier), snapshot.now
        jobs = set(snapshot.pending.jobs.job_id.tolist())
        if history is None or not jobs:
            continue
        if jobs <= seen and snapshot.now - last < HOUR:
            continue
        seen, last = seen | jobs, snapshot.now
        forecaster.source = replace(forecaster.source, order=orders.of(look))
        forecaster.foretell(history, snapshot)
    forecaster.settle(stretched(looks[-1].snapshot, origin))
    rows = kept.rows(0.0)
    kept.close()
    return rows
