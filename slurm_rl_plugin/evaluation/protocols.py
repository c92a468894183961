"""Policies measured on jobs that no choice has seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from slurm_rl_plugin.evaluation.study import absent
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.continuous import (
    ContinuousProtocol,
    Replayed,
    ratios_to,
    replay_continuously,
    rules_on_training_part,
)
from slurm_rl_plugin.learning.evaluation.heldout import (
    NODE_HEURISTICS,
    HeldoutProtocol,
    WindowFigures,
    best_heuristic,
    figures_of_windows,
    heuristics_on_training_part,
    training_and_test_windows,
)
from slurm_rl_plugin.learning.evaluation.paired import Candidate, knowing_recent_runs
from slurm_rl_plugin.learning.evaluation.run_time_scores import run_time_scores
from slurm_rl_plugin.learning.evaluation.schedule_waits import FIGURES
from slurm_rl_plugin.learning.training_load import training_jobs
from slurm_rl_plugin.measure.intervals import WindowRatio, overlapping_windows, ratio_over_windows
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import DAY

#: Always simulated: what the others are compared with, and what most sites run.
FIRST_COME, MULTIFACTOR = "fifo", "multifactor"

#: Opens a progress bar by title, steps and measure; yields a function of a step and its figure.
FigureBar = Callable[[str, int, str], AbstractContextManager[Callable[[int, float], None]]]
_Ratios = dict[str, dict[str, float | list[float] | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldoutStudy:
    """Policies on windows of the last 40 % of a log, over the best rule of the first part."""

    windows: int  #: of the test part
    independent_windows: float  #: of the test part
    best_heuristic: str  #: the rule with the best `training_bounded_slowdown`
    training_bounded_slowdown: dict[str, float]
    ratio_to_best_heuristic: dict[str, WindowRatio]  #: of bounded slowdowns, of each policy
    ratio_to_multifactor: dict[str, WindowRatio]  #: of bounded slowdowns, of each policy
    policies: dict[str, dict[str, float | None]]
    run_time_scores: Mapping[str, Any]  #: how well past runs predict run times
    class_rule: str
    jobs_without_request: int  #: whose run time replaces the request, so it is no prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousStudy:
    """Policies in one run through a log: medians of runs, and ratios with intervals."""

    runs: int
    backfilling: str
    counted_jobs: int
    class_rule: str
    #: on nodes, the rule with the best `training_bounded_slowdown`
    best_heuristic: str | None = absent()
    training_bounded_slowdown: dict[str, float] | None = absent()
    days: int | None = absent()  #: after the training part; intervals on nodes are drawn from them
    policies: dict[str, dict[str, float]]
    ratio_to_fifo: _Ratios
    ratio_to_multifactor: _Ratios
    ratio_to_best_heuristic: _Ratios | None = absent()


def heldout_study(
    candidates: Sequence[Candidate],
    prepared: PreparedLog,
    known: PreparedLog,
    protocol: HeldoutProtocol,
    seed: int,
    bar: FigureBar,
) -> HeldoutStudy:
    """Choose a rule on the first 60 % of a log and compare policies on windows of the rest."""
    training, test = training_and_test_windows(prepared, protocol)
    # an unknown policy must be refused before the work, not after
    figures_of_windows(candidates, known, test[:1], protocol)
    with bar("training part", len(training), "bounded slowdown") as progress:
        rules = heuristics_on_training_part(known, training, protocol, progress=progress)
    best = best_heuristic(rules)
    compared = {each.name: each for each in candidates}
    for name in (FIRST_COME, MULTIFACTOR, best):
        compared.setdefault(name, Candidate(name=name))
    with bar("test part", len(test), "bounded slowdown") as progress:
        figures = figures_of_windows(
            list(compared.values()), known, test, protocol, progress=progress
        )
    block = overlapping_windows(test, protocol.jobs)

    def ratios(to: str) -> dict[str, WindowRatio]:
        """Every policy's bounded slowdown over that of one of them; all draw the same windows."""
        below = figures[to].bounded_slowdown
        return {
            name: ratio_over_windows(
                each.bounded_slowdown, below, np.random.default_rng(seed), block=block
            )
            for name, each in figures.items()
        }

    border, limit = training_jobs(prepared), prepared.log.time_limit
    return HeldoutStudy(
        windows=len(test),
        independent_windows=round(protocol.independent_windows(len(prepared.log) - border), 1),
        best_heuristic=best,
        training_bounded_slowdown=rules,
        ratio_to_best_heuristic=ratios(best),
        ratio_to_multifactor=ratios(MULTIFACTOR),
        policies={name: _pooled(each) for name, each in figures.items()},
        run_time_scores=run_time_scores(known, training_jobs(known), len(known.log)),
        class_rule=known.class_rule,
        jobs_without_request=int((~(np.isfinite(limit) & (limit > 0))).sum()),
    )


def _pooled(figures: WindowFigures) -> dict[str, float | None]:
    short = float(figures.short_jobs.sum())
    return {
        "mean_bounded_slowdown": float(figures.bounded_slowdown.mean()),
        "short_within_120s": float(figures.short_within_120s.sum()) / short if short else None,
        "mean_max_wait": float(figures.max_wait.mean()),
        "misdelivered": float(figures.misdelivered.mean()),
    }


def continuous_study(
    candidates: Sequence[Candidate],
    known: PreparedLog,
    settings: SimulationSettings,
    protocol: ContinuousProtocol,
    bar: FigureBar,
) -> ContinuousStudy:
    """Replay a log in one run under each policy, fifo and multifactor."""
    border, measure = training_jobs(known), "bounded slowdown"
    counted, bases = len(known.log) - border, [FIRST_COME, MULTIFACTOR]
    rules, best, days = None, None, None
    if known.machine is not None:
        with bar("training part", protocol.runs * len(NODE_HEURISTICS), measure) as progress:
            rules = rules_on_training_part(
                NODE_HEURISTICS, known, settings.without_hook, protocol, progress=progress
            )
        best = best_heuristic(rules)
        submit = known.log.submit[border:]
        days = int((submit[-1] - submit[0]) // DAY) + 1
        known = knowing_recent_runs(known, known.workload(RequestedLimit()), settings)
        bases.append(best)
    bases = list(dict.fromkeys(bases))
    # those that others are compared with are simulated without the hook, under names of their own
    replayed = [Replayed(name=each.name, candidate=each) for each in candidates]
    replayed += [
        Replayed(name=f"{name} alone", candidate=Candidate(name=name), alone=True) for name in bases
    ]
    with bar("continuous replay", protocol.runs * len(replayed), measure) as progress:
        runs = replay_continuously(replayed, known, settings, protocol, progress=progress)
    compared = {name: runs.pop(f"{name} alone") for name in bases}
    runs = {**runs, **{name: runs.get(name, each) for name, each in compared.items()}}

    def ratios(to: str) -> _Ratios:
        return ratios_to(runs, compared[to], protocol.seed, protocol.drawn_together)

    return ContinuousStudy(
        runs=protocol.runs,
        backfilling=settings.backfilling,
        counted_jobs=counted,
        class_rule=known.class_rule,
        best_heuristic=best,
        training_bounded_slowdown=rules,
        days=days,
        policies={
            name: {
                figure: float(np.median([getattr(run.waits, figure) for run in each]))
                for figure in FIGURES
            }
            for name, each in runs.items()
        },
        ratio_to_fifo=ratios(FIRST_COME),
        ratio_to_multifactor=ratios(MULTIFACTOR),
        ratio_to_best_heuristic=None if best is None else ratios(best),
    )
