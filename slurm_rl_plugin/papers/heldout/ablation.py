"""The effect of features and algorithm: the same training without a group, or by fitted Q.

Training uses the past of all logs at once, as for the shipped model; the later parts are measured
in the same windows. docs/research/definitions.md: held-out protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from slurm_rl_plugin.papers.heldout import experiment
from slurm_rl_plugin.papers.study.claims import Row, row_of
from slurm_rl_plugin.papers.study.figures import interval_panels
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


def ratios(log: experiment.LogStudy, variant: str, column: str) -> FloatArray:
    """Logarithm of a ratio of each seed and window, shape [seeds, windows]."""
    mine = log.learned[variant]
    below = log.learned[ALL_FEATURES] if column == TO_ALL else [log.rules[log.best]] * len(mine)
    pairs = zip(mine, below, strict=True)
    return np.array([np.log(a.bounded_slowdown / b.bounded_slowdown) for a, b in pairs])


def rows_of(found: Mapping[str, experiment.LogStudy]) -> Iterator[Row]:
    """Every variant on every log, then on all logs together, without verdicts."""
    cells = [
        (variant, column)
        for variant in (*VARIANTS, FITTED_Q)
        for column in (experiment.TO_BEST, TO_ALL)
    ]
    for name, log in found.items():
        for cell in cells:
            yield row_of(name, *cell, experiment.ratio_over_seeds(ratios(log, *cell), log.block))
    for cell in cells:
        logs = ((ratios(log, *cell), log.block) for log in found.values())
        yield row_of("all logs", *cell, experiment.ratio_over_logs(logs))


def run(asked: Asked) -> Outcome:
    """Train every variant with every seed, then measure each log."""
    plan = experiment.HeldoutPlan.of(asked)
    networks: dict[str, list[QNetwork]] = {variant: [] for variant in (*VARIANTS, FITTED_Q)}
    found = dict[str, experiment.LogStudy]()
    each = len(VARIANTS) * plan.size.settings.generations + plan.size.fitted.iterations
    with asked.bar("training and measuring", plan.seeds * each + len(plan.logs)) as add:
        for seed in range(plan.seeds):
            training = experiment.HeldoutTraining(plan, seed, ResultStore(asked.models, add))
            for variant, changes in VARIANTS.items():
                networks[variant].append(training.pooled(list(plan.logs), changes).q_network)
            networks[FITTED_Q].append(training.fitted(list(plan.logs)).q_network)
        for name, log in plan.logs.items():
            found[name] = experiment.measured(log, networks, plan.size.test)
            add(1)
    claims = list(rows_of(found))
    shown = [each for each in claims if each.cell.column == TO_ALL]
    drawn = [each for each in shown if each.cell.policy != ALL_FEATURES]
    return Outcome(
        claims=claims,
        seeds=range(plan.seeds),
        facts={"best_heuristic": {name: log.best for name, log in found.items()}},
        drawings={"ablation.png": partial(interval_panels, drawn, TO_ALL, at=1.0)},
    )
