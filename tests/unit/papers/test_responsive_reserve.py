"""Figures against another policy, their intervals over seeds and blocks, and the goals."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.measure.intervals import BLOCK_JOBS
from slurm_rl_plugin.papers.responsive_reserve.experiment import (
    BATCH_TO_SJF,
    FAIRNESS_LOST,
    INTERACTIVE_GAIN,
    LONGEST_TO_FIFO,
    WAIT_TO_FIFO,
    WAIT_TO_SJF,
    WITHIN,
    _scaled,
    measured,
    measured_on_one_log,
)
from slurm_rl_plugin.papers.study.trials import Contender, run_trial
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.functional.small_site import small_network

POLICIES = {
    "FIFO": Contender(rule="fifo"),
    "SJF oracle": Contender(rule="sjf"),
    "held": Contender(rule="sjf", reserve=1),
}


def trial(seeds, jobs=600):
    logs = [
        prepare_log(mmn_log(np.random.default_rng(seed), processors=10, jobs=jobs))
        for seed in range(seeds)
    ]
    return run_trial(logs, POLICIES, (0, 50), lambda _: None)


MANY, ONE = trial(4), trial(1, jobs=3050)


@pytest.mark.parametrize(
    ("column", "figure", "other"),
    [
        (WAIT_TO_SJF, "mean wait", "SJF oracle"),
        (WAIT_TO_FIFO, "mean wait", "FIFO"),
        (BATCH_TO_SJF, "batch mean wait", "SJF oracle"),
    ],
)
def test_a_ratio_is_one_of_means_over_the_same_logs(column, figure, other):
    expected = MANY.figure("held", figure).mean() / MANY.figure(other, figure).mean()
    found = measured(MANY, "held", column)
    assert found.value == pytest.approx(expected)
    assert found.ci95[0] <= found.value <= found.ci95[1]
    assert measured(MANY, other, column).ci95 == pytest.approx((1.0, 1.0))


def test_a_gain_is_fifos_wait_over_its_own_and_the_longest_wait_a_median_of_ratios():
    waits = [MANY.figure(name, "interactive mean wait").mean() for name in ("FIFO", "held")]
    assert measured(MANY, "held", INTERACTIVE_GAIN).value == pytest.approx(waits[0] / waits[1])
    ratios = MANY.ratio("longest wait", "held", "FIFO")
    assert measured(MANY, "held", LONGEST_TO_FIFO).value == pytest.approx(np.median(ratios))
    lost = MANY.figure("held", "F") - MANY.figure("FIFO", "F")
    assert measured(MANY, "held", FAIRNESS_LOST).value == pytest.approx(lost.mean())
    assert measured(MANY, "held", "J").value == pytest.approx(MANY.figure("held", "J").mean())


@pytest.mark.parametrize("column", ["R", WITHIN, BATCH_TO_SJF, FAIRNESS_LOST])
def test_blocks_give_the_same_figure_and_an_interval_around_it(column):
    whole, blocks = measured(ONE, "held", column), measured_on_one_log(ONE, "held", column)
    assert blocks.value == pytest.approx(whole.value)
    assert whole.ci95 is None
    assert blocks.ci95[0] < blocks.value < blocks.ci95[1]
    assert len(ONE.schedules["held"][0].submit) - 50 == 6 * BLOCK_JOBS


def test_a_scaled_reserve_is_so_many_times_as_large():
    network = replace(
        small_network(), reserve_weights=np.arange(float(len(SITE.queue))), reserve_bias=3.0
    )
    queue = np.linspace(0.0, 1.0, len(SITE.queue))
    assert _scaled(network, 0.5).reserve(queue) == pytest.approx(network.reserve(queue) / 2)
    greedy = small_network()
    assert _scaled(greedy, 2.0) is greedy
