"""Compares how orders keep accounts' shares, on logs whose users are put into accounts.

The users of a log, the largest first, are put into accounts so that each account requests a part of
the work that is not its share; arrivals are scaled to a load. `skew`: four accounts with equal
shares request 0.5, 0.3, 0.15 and 0.05. `burst`: five accounts; the last submits four weeks' work at
once. `six`: six accounts that request more or less than their shares. Ratios are geometric means
over the cases; the jobs between 10 % and 95 % of the log count.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import Candidate, starts_under
from slurm_rl_plugin.learning.training_load import class_known_at_submission
from slurm_rl_plugin.services.candidates import candidate_of
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log, with_accounts
from slurm_rl_plugin.simulator.workloads.resampling import scale_load
from slurm_rl_plugin.units import DAY, HOUR, FloatArray
from slurm_rl_plugin.utility.fairness import KEPT, ServedJobs, service_of_windows
from slurm_rl_plugin.utility.time_utility import bounded_slowdown
from tests.bench.report import write_document

#: Name -> requested part and share of each account.
SCHEMES: Mapping[str, tuple[Sequence[float], Sequence[float]]] = {
    "skew": ((0.5, 0.3, 0.15, 0.05), (0.25, 0.25, 0.25, 0.25)),
    "burst": ((0.35, 0.25, 0.2, 0.1, 0.1), (0.3, 0.2, 0.2, 0.1, 0.2)),
    "six": ((0.05, 0.15, 0.35, 0.1, 0.25, 0.1), (0.35, 0.2, 0.15, 0.1, 0.1, 0.1)),
}
#: Time between bursts, and duration of a burst, seconds.
_PERIOD, _BURST = 28 * DAY, HOUR
#: Points for a doubling of usage over share.
POINTS = (0.0, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0)
_SHORT, _SOON = 900.0, 120.0


#: Of one order in one case; seconds.
Figures = Mapping[str, float]


def case_of(prepared: PreparedLog, scheme: str, load: float, seed: int) -> PreparedLog:
    """The log with accounts, shares and load of a scheme."""
    wanted, shares = (np.array(each) for each in SCHEMES[scheme])
    log, rng = prepared.log, np.random.default_rng(seed)
    work = np.bincount(log.user, log.run_time * log.processors, len(log.users))
    got, account_of = np.zeros(len(wanted)), dict[str, str]()
    for user in np.argsort(-work * np.exp(rng.normal(0.0, 0.2, len(work)))).tolist():
        place = int(np.argmax(wanted * work.sum() - got))
        got[place] += work[user]
        account_of[log.users[user]] = f"account{place}"
    log = with_accounts(log, account_of)
    span = float(log.submit[-1] - log.submit[0])
    log = scale_load(log, load * prepared.capacity * span / work.sum())
    if scheme == "burst":
        came = log.submit - log.submit[0]
        at_once = came // _PERIOD * _PERIOD + came % _PERIOD / _PERIOD * _BURST
        last = log.account == log.accounts.index(f"account{len(wanted) - 1}")
        submit = log.submit[0] + np.where(last, at_once, came)
        log = replace(log, submit=submit, eligible=submit)
        log = log.select(np.argsort(submit, kind="stable"))
    told = {f"account{place}": float(share) for place, share in enumerate(shares)}
    return class_known_at_submission(prepare_log(log, capacity=prepared.capacity, shares=told))


def figures_of(case: PreparedLog, start: FloatArray) -> Figures:
    """Figures of a schedule."""
    log, jobs = case.log, len(case.log)
    counted = slice(jobs // 10, int(jobs * 0.95))
    wait = start - log.submit
    served = ServedJobs(
        submit=log.submit,
        start=start,
        run_time=log.run_time,
        rate=log.processors.astype(np.float64),
        account=case.account,
    )
    service = service_of_windows(
        served,
        case.shares,
        begin=float(log.submit[counted][0]),
        end=float(log.submit[-1]),
        most=float(case.capacity),
    )
    ratio = service.delivered / np.maximum(service.entitled, 1e-9)
    judged = service.entitled > 0.02 * service.delivered.sum(axis=1, keepdims=True)
    work = np.bincount(case.account, log.run_time * log.processors, len(case.shares))
    modest = (work / work.sum() <= case.shares)[case.account]
    wait_of, run_time = wait[counted], log.run_time[counted]
    short, wide = run_time < _SHORT, log.processors[counted]
    return {
        "misdelivered": service.misdelivered,
        "quantile05": float(np.quantile(np.minimum(ratio[judged], 1.0), 0.05)),
        "kept95": float(np.mean(ratio[judged] >= KEPT)),
        "slowdown": float(bounded_slowdown(wait_of, run_time).mean()),
        "within_120s": float(np.mean(wait_of[short] <= _SOON)),
        "wide_wait": float(wait_of[wide >= np.quantile(wide, 0.9)].mean()),
        "longest_wait": float(wait_of.max()),
        "longest_within_share": float(wait_of[modest[counted]].max(initial=0.0)),
    }


def orders(model: str) -> dict[str, tuple[Candidate, Goals]]:
    """Name -> order and goals: multifactor, first come, first served, and ours."""
    ours = candidate_of(model)
    found = {name: (candidate_of(name), Goals()) for name in ("multifactor", "fifo")}
    return found | {f"{model} {points:g}": (ours, Goals(shares=points)) for points in POINTS}


def _mean_of_logs(ratios: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(np.maximum(ratios, 1e-9)))))


def row_of(found: Mapping[str, Sequence[Figures]], name: str) -> dict[str, float]:
    """The figures of one order over all cases."""
    ours, site, first = found[name], found["multifactor"], found["fifo"]

    def over(base: Sequence[Figures], field: str) -> list[float]:
        pairs = zip(ours, base, strict=True)
        return [
            max(a[field], 60.0) / max(b[field], 60.0)
            if "wait" in field or "longest" in field
            else a[field] / b[field]
            for a, b in pairs
        ]

    within = over(first, "longest_within_share")
    soon = [a["within_120s"] - b["within_120s"] for a, b in zip(ours, site, strict=True)]
    return {
        "misdelivered": float(np.mean([each["misdelivered"] for each in ours])),
        "quantile05": float(np.mean([each["quantile05"] for each in ours])),
        "kept95": float(np.mean([each["kept95"] for each in ours])),
        "slowdown_over_multifactor": _mean_of_logs(over(site, "slowdown")),
        "points_within_120s": 100.0 * float(np.mean(soon)),
        "wide_over_multifactor": _mean_of_logs(over(site, "wide_wait")),
        "longest_over_fifo": _mean_of_logs(over(first, "longest_wait")),
        "longest_within_share_over_fifo": _mean_of_logs(within),
        "worst_within_share_over_fifo": max(within),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Tries every order in every case; prints a table, writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path, nargs="+", metavar="LOG")
    parser.add_argument("--jobs", type=int, default=15_000, help="first jobs of each log")
    parser.add_argument("--load", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="default")
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    chosen = parser.parse_args(arguments)
    found: dict[str, list[Figures]] = {}
    for path in chosen.log:
        log, _ = read_log(path)
        whole = prepare_log(log)
        part = prepare_log(log.select(np.arange(chosen.jobs)), capacity=whole.capacity)
        for scheme in SCHEMES:
            case = case_of(part, scheme, chosen.load, chosen.seed)
            workload = case.workload(RequestedLimit())
            settings = SimulationSettings(capacity=case.capacity, backfilling="easy")
            for name, (candidate, goals) in orders(chosen.model).items():
                wanted = replace(settings, goals=goals)
                start = starts_under(candidate, case, workload, wanted)
                found.setdefault(name, []).append(figures_of(case, start))
            print(f"{path.name} {scheme}: done", file=sys.stderr)
    rows = {name: row_of(found, name) for name in found}
    for name, row in rows.items():
        print(f"{name:14}", "  ".join(f"{key} {value:.3f}" for key, value in row.items()))
    write_document(chosen.output / "share-cases.json", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
