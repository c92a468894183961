"""The effect of features and algorithm: the same training without a group, or by fitted Q.

Training uses the past of all logs at once, as for the shipped model; the later parts are measured
in the same windows. docs/research/definitions.md: held-out protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from slurm_rl_plugin.learning.evaluation.heldout import (
    WindowFigures,
    best_heuristic,
    heuristics_on_training_part,
    training_and_test_windows,
)
from slurm_rl_plugin.learning.training_load import class_known_at_submission
from slurm_rl_plugin.measure.intervals import overlapping_windows
from slurm_rl_plugin.papers.heldout import experiment
from slurm_rl_plugin.papers.study.claims import Claim, row_of
from slurm_rl_plugin.papers.study.figures import draw_intervals, finished, panels
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Outcome
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.units import FloatArray

ALL_FEATURES = "all features"
#: Variant -> changes of the search's settings; without predictions it starts from requests.
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    ALL_FEATURES: {},
    "without similar jobs": {"without": "alike"},
    "without predicted run times": {"without": "prediction", "start": "saf"},
    "without past runs": {"without": "prediction,alike", "start": "saf"},
    "without the request": {"without": "request"},
    "without processors": {"without": "processors"},
}
#: All features, and fitted Q iteration in place of the search.
FITTED_Q = "fitted Q iteration"
TO_ALL = "slowdown / that with all features"
ALL_LOGS = "all logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class AblatedLog:
    """Results on one log."""

    best: str  #: the best rule of the training part
    rule: WindowFigures  #: its figures on the test windows
    #: Variant -> figures of each seed in the same windows.
    variants: Mapping[str, list[WindowFigures]]
    block: int  #: consecutive windows that depend on each other

    def ratios(self, variant: str, column: str) -> FloatArray:
        """Logarithm of a ratio of each seed and window, shape [seeds, windows]."""
        mine = self.variants[variant]
        below = self.variants[ALL_FEATURES] if column == TO_ALL else [self.rule] * len(mine)
        pairs = zip(mine, below, strict=True)
        return np.array([np.log(a.bounded_slowdown / b.bounded_slowdown) for a, b in pairs])


def ablate(
    plan: experiment.HeldoutPlan, store: ResultStore, after_log: Callable[[], None]
) -> dict[str, AblatedLog]:
    """Train every variant with every seed, then measure each log."""
    logs = list(plan.logs)
    networks: dict[str, list[QNetwork]] = {variant: [] for variant in (*VARIANTS, FITTED_Q)}
    for seed in range(plan.seeds):
        training = experiment.HeldoutTraining(plan, seed, store)
        for variant, changes in VARIANTS.items():
            networks[variant].append(training.pooled(logs, changes).q_network)
        networks[FITTED_Q].append(training.fitted(logs).q_network)
    found = {}
    for name, log in plan.logs.items():
        found[name] = _measured(log.prepared, networks, plan)
        after_log()
    return found


def _measured(
    log: Any, networks: Mapping[str, list[QNetwork]], plan: experiment.HeldoutPlan
) -> AblatedLog:
    known, protocol = class_known_at_submission(log), plan.size.test
    training, test = training_and_test_windows(known, protocol)
    best = best_heuristic(heuristics_on_training_part(known, training, protocol))
    rules, variants = experiment.figures_by_kind([best], networks, known, test, protocol)
    return AblatedLog(
        best=best,
        rule=rules[best],
        variants=variants,
        block=overlapping_windows(test, protocol.jobs),
    )


def ablation_claims(found: Mapping[str, AblatedLog]) -> Iterator[Claim]:
    """Every variant on every log, then on all logs together, without verdicts."""
    cells = [
        (variant, column)
        for variant in (*VARIANTS, FITTED_Q)
        for column in (experiment.TO_BEST, TO_ALL)
    ]
    for name, log in found.items():
        for cell in cells:
            yield Claim(
                row=row_of(name, *cell, experiment.ratio_over_seeds(log.ratios(*cell), log.block))
            )
    for cell in cells:
        logs = ((log.ratios(*cell), log.block) for log in found.values())
        yield Claim(row=row_of(ALL_LOGS, *cell, experiment.ratio_over_logs(logs)))


def _ratios(found: Mapping[str, AblatedLog]) -> Any:
    """A panel for each log: each variant's seeds as points, their median with its interval."""
    figure, axes = panels(list(found), (4, 3.5), share=True)
    for axis, log in zip(axes, found.values(), strict=True):
        rows = {each: log.ratios(each, TO_ALL) for each in [*list(VARIANTS)[1:], FITTED_Q][::-1]}
        draw_intervals(
            axis,
            {name: experiment.ratio_over_seeds(each, log.block) for name, each in rows.items()},
        )
        for place, each in enumerate(rows.values()):
            axis.plot(np.exp(each.mean(axis=1)), [place] * len(each), ".", color="tab:grey")
        axis.axvline(1.0, color="black", linewidth=0.8)
    figure.supxlabel(f"{TO_ALL}: geometric mean over windows, 95 % interval; grey: seeds")
    return finished(figure, axes, "", "")


def run(asked: Asked) -> Outcome:
    """Train every variant and measure."""
    plan = experiment.HeldoutPlan.of(asked)
    each = len(VARIANTS) * plan.size.settings.generations + plan.size.fitted.iterations
    with asked.bar("training and measuring", plan.seeds * each + len(plan.logs)) as add:
        found = ablate(plan, ResultStore(asked.models, add), partial(add, 1))
    return Outcome(
        claims=list(ablation_claims(found)),
        seeds=range(plan.seeds),
        facts={"best_heuristic": {name: log.best for name, log in found.items()}},
        drawings={"ablation.png": lambda: _ratios(found)},
    )
