"""What a policy believes of run times, and what that is worth: J on the crowded segment LPC-D.

The paper compares known run times (ORA) with the medians of the classes (EST). Two more are what a
site has: the prediction that the daemon makes of users' past runs, and the requested time limits.
Every policy is given each of them, whatever it learned with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slurm_rl_plugin.features.estimates import ClassMedian, RequestedLimit, RunTimeEstimate
from slurm_rl_plugin.features.history.run_prediction import PARTS
from slurm_rl_plugin.learning.export.model import import_model
from slurm_rl_plugin.papers.reactive_grids_2008.shipped_models import crowded_segment
from slurm_rl_plugin.papers.study.claim_tables import Report, TextTable
from slurm_rl_plugin.papers.study.effort import Plan
from slurm_rl_plugin.papers.study.paired_trials import Contender, measures_of
from slurm_rl_plugin.papers.study.result_store import LearnedNetwork
from slurm_rl_plugin.simulator.workloads.recorded_runs import quantiles_at_start
from slurm_rl_plugin.units import BoolArray, FloatArray

_SHIPPED = ("reactive-grids", "non-markovian")
_RULES = {"FIFO": "fifo", "SJF": "sjf", "min(run + wait)": "min-run-wait"}
#: Place of the quantile that is the prediction.
_MEDIAN = PARTS.index(0.5)

#: Policy -> estimate -> J, mean over the policy's learners.
EstimateFigures = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Predicted:
    """Run times of one log's jobs as they were predicted, seconds, shape [n]."""

    seconds: FloatArray
    kind: str = "prediction"

    def estimate(self, time_limit: FloatArray, interactive: BoolArray) -> FloatArray:
        """The prediction of each job, seconds, shape [n]."""
        del time_limit, interactive
        return self.seconds


def estimate_figures(
    plan: Plan,
    learned: Mapping[str, Sequence[LearnedNetwork]],
    shipped: Callable[[str], Path],
    medians: ClassMedian,
) -> EstimateFigures:
    """J of rules, learned networks and shipped models under every estimate.

    Args:
        plan: with the folder of traces.
        learned: name -> its networks, one a learner.
        shipped: gives the file of a shipped model by its name.
        medians: of the classes, from jobs before the segment.

    Raises:
        ConfigurationError: the folder of traces lacks LPC-D.
        AccountingLogError: it cannot be read.
    """
    if plan.traces is None:
        return {}
    prepared = crowded_segment(plan.traces, plan.effort)
    predicted = np.maximum(quantiles_at_start(prepared)[:, _MEDIAN], 1.0)
    estimates: dict[str, RunTimeEstimate | None] = {
        "oracle": None,
        "EST": medians,
        "prediction": _Predicted(seconds=predicted),
        "limits": RequestedLimit(),
    }
    networks = {**learned}
    networks |= {f"shipped {name}": [import_model(shipped(name))] for name in _SHIPPED}

    def figures(rule: str, nets: Sequence[LearnedNetwork | None]) -> dict[str, float]:
        return {
            name: float(
                np.mean(
                    [
                        measures_of(
                            Contender(rule=rule, network=each, estimates=kind).schedule(prepared),
                            (0, 0),
                        )["J"]
                        for each in nets
                    ]
                )
            )
            for name, kind in estimates.items()
        }

    rules = {name: figures(rule, [None]) for name, rule in _RULES.items()}
    return rules | {name: figures("", nets) for name, nets in networks.items()}


def estimate_report(found: EstimateFigures) -> Report:
    """A row for each policy, a column for each estimate."""
    if not found:
        return []
    columns = list(next(iter(found.values())))
    rows = [[name, *(f"{each[kind]:.3f}" for kind in columns)] for name, each in found.items()]
    title = "\nJ = U/2 + F/2 on LPC-D, 81 processors, by what is believed of run times:"
    return [title, TextTable(["POLICY", *(kind.upper() for kind in columns)], rows)]
