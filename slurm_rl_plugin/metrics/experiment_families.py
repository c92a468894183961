"""Families of an experiment: whose turn it is, and what our order is worth in it."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric, StateSetMetricFamily

from slurm_rl_plugin.hook.experiment.report import (
    EXPERIMENT_PHASES,
    EXPERIMENT_WORDS,
    ExperimentReport,
)


def experiment_families(report: ExperimentReport) -> Iterator[Metric]:
    """Every family; those of goals are empty until the first pair of blocks is over."""
    phase = StateSetMetricFamily("slurm_rl_experiment", "Whose turn it is in an experiment.")
    phase.add_metric([], {each: report.phase == each for each in EXPERIMENT_PHASES})
    yield phase
    yield GaugeMetricFamily(
        "slurm_rl_experiment_stepped_back",
        "Whether an experiment has ended by itself, for harm that is sure or a guard.",
        1 if report.state == "stepped back" else 0,
    )
    yield GaugeMetricFamily(
        "slurm_rl_experiment_pairs", "Pairs of blocks that are over.", report.pairs
    )
    ratio = GaugeMetricFamily(
        "slurm_rl_experiment_cost_ratio",
        "Cost of what is on trial over that of what it is compared with, and the interval's ends.",
        labels=("goal", "which"),
    )
    word = GaugeMetricFamily(
        "slurm_rl_experiment_finding", "1 for what is known of a goal.", labels=("goal", "word")
    )
    for each in report.goals:
        for which, value in (("estimate", each.ratio), ("low", each.low), ("high", each.high)):
            ratio.add_metric((each.goal, which), value)
        for one in EXPERIMENT_WORDS:
            word.add_metric((each.goal, one), 1.0 if each.word == one else 0.0)
    yield from (ratio, word)
