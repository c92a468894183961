"""`slurm-rl evaluate --protocol continuous`: a log in one run, and whom an order lets wait."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.assembly.candidates import candidate_of
from slurm_rl_plugin.cli.logs.arguments import configured_classifier
from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.cli.tables import WAIT_UNITS, print_table, waiting_time
from slurm_rl_plugin.features.history.run_prediction import RunTimePrediction
from slurm_rl_plugin.learning.evaluation.continuous import (
    BY_REQUESTS,
    CLAIRVOYANT,
    ContinuousProtocol,
    ContinuousRun,
    Replayed,
    ratios_to,
    replay_continuously,
)
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.load_windows import class_known_at_submission, training_jobs
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.registry import SHIPPED_MODEL
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog

#: Always replayed: what the others are compared with, and what most sites run.
FIRST_COME, MULTIFACTOR = "fifo", "multifactor"
_LEGEND = (
    "The whole log in one run, EASY backfilling; figures of the last {counted_jobs} jobs, medians "
    "of {runs} runs, each without 2 % of the jobs.",
    "WAIT, LONGEST, 99.9 %, WIDE: mean and longest wait, the wait that one job in a thousand "
    f"exceeds, and the mean wait of the widest tenth of the jobs, {WAIT_UNITS}.",
    "/FIFO: over that of first come, first served, planned by requests; below 1 is better. BSLD: "
    "mean bounded slowdown. SHORT<=120S%: of the jobs that ran less than 900 s, those that "
    "started within 120 s. F: fairness, from 0 to 1.",
)


def continuous_entry(
    candidates: Sequence[Candidate], prepared: PreparedLog, options: argparse.Namespace
) -> dict[str, Any]:
    """The `continuous` part of `evaluate --json`.

    Args:
        candidates: the policies asked for.
        prepared: the log; its classes may come from actual run times.
        options: `config` (job-class rules), `cycle`, `plan`, `runs` and `seed`.

    Raises:
        ConfigurationError: a log too short, or an unknown policy.
    """
    protocol = ContinuousProtocol(runs=options.runs or ContinuousProtocol().runs, seed=options.seed)
    known = class_known_at_submission(prepared, configured_classifier(options.config))
    settings = SimulationSettings(
        capacity=prepared.capacity, backfilling="easy", cycle=options.cycle
    )
    replayed = _replayed(candidates, options.plan or BY_REQUESTS)
    steps = protocol.runs * len(replayed)
    with progress_bar("continuous replay", steps, "bounded slowdown") as progress:
        runs = replay_continuously(replayed, known, settings, protocol, progress=progress)
    bases = {name: runs.pop(_base(name)) for name in (FIRST_COME, MULTIFACTOR)}
    runs = {**runs, **{name: runs.get(name, each) for name, each in bases.items()}}
    found: dict[str, Any] = {
        "runs": protocol.runs,
        "plan": options.plan or BY_REQUESTS,
        "counted_jobs": len(prepared.log) - training_jobs(prepared),
        "class_rule": known.class_rule,
        "policies": {name: _medians(each) for name, each in runs.items()},
        "ratio_to_fifo": ratios_to(runs, bases[FIRST_COME], options.seed),
        "ratio_to_multifactor": ratios_to(runs, bases[MULTIFACTOR], options.seed),
    }
    if options.plot is not None:
        found["figures"] = [_draw(options.plot, found["ratio_to_fifo"])]
    return found


def _draw(folder: Path, ratios: dict[str, dict[str, Any]]) -> str:
    from slurm_rl_plugin.cli.evaluate.front_figure import draw_front  # noqa: PLC0415 - matplotlib is heavy

    folder.mkdir(parents=True, exist_ok=True)
    points = {
        name: (each["bounded_slowdown"], each["longest_wait"])
        for name, each in ratios.items()
        if each["longest_wait"] is not None
    }
    over = "over that of first come, first served"
    path = folder / "front.png"
    draw_front(path, points, (f"mean bounded slowdown {over}", f"longest wait {over}"))
    return str(path)


def _base(name: str) -> str:
    """What the runs of a rule are called that others are compared with: planned by requests."""
    return f"{name} by requests"


def _replayed(candidates: Sequence[Candidate], plan: str) -> list[Replayed]:
    """The policies asked for under the plan, and what they are compared with."""
    asked = [
        Replayed(name=each.name, candidate=each, plan=plan, prediction=_prediction(each, plan))
        for each in candidates
    ]
    bases = [
        Replayed(name=_base(name), candidate=Candidate(name=name))
        for name in (FIRST_COME, MULTIFACTOR)
    ]
    return [*asked, *bases]


def _prediction(candidate: Candidate, plan: str) -> RunTimePrediction | None:
    """Of the model itself; of the shipped one for a policy that predicts nothing."""
    if plan in (BY_REQUESTS, CLAIRVOYANT):
        return None
    network = candidate.network
    if isinstance(network, QNetwork) and network.prediction is not None:
        return network.prediction
    shipped = candidate_of(SHIPPED_MODEL).network
    assert isinstance(shipped, QNetwork)
    return shipped.prediction


def _medians(runs: Sequence[ContinuousRun]) -> dict[str, float]:
    """Median over the runs of each figure, seconds where it is a wait."""
    names = (
        *("bounded_slowdown", "mean_wait", "longest_wait", "p999_wait", "wide_wait"),
        *("short_within_120s", "fairness"),
    )
    return {name: float(np.median([getattr(run, name) for run in runs])) for name in names}


def print_continuous(continuous: dict[str, Any]) -> None:
    """One row a policy: its figures, then those that are ratios to first come, first served."""
    header = ["POLICY", "BSLD", "/FIFO", "(95 %)", "/MULTIFACTOR", "WAIT", "/FIFO"]
    header += ["LONGEST", "/FIFO", "99.9 %", "/FIFO", "WIDE", "/FIFO", "SHORT<=120S%", "F"]
    rows = []
    for name, figures in continuous["policies"].items():
        ratio = continuous["ratio_to_fifo"][name]
        interval = ratio["ci95"]
        row = [name, figures["bounded_slowdown"], ratio["bounded_slowdown"]]
        row.append(None if interval is None else "{:.3f}-{:.3f}".format(*interval))
        row.append(continuous["ratio_to_multifactor"][name]["bounded_slowdown"])
        for wait in ("mean_wait", "longest_wait", "p999_wait", "wide_wait"):
            row += [waiting_time(figures[wait]), ratio[wait]]
        rows.append([*row, 100.0 * figures["short_within_120s"], figures["fairness"]])
    print_table(header, rows)
    for line in _LEGEND:
        print(line.format(**continuous))
    print(f"class that policies see: {continuous['class_rule']}")
