"""A simulation on nodes that begins in the middle goes on as the one that ran up to there."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.forecasts.replays import queue_met, run_before
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.run import NODE_BACKFILLING, Run, run_until_started
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.simulator.workloads.site_points import site_priority
from slurm_rl_plugin.units import IntArray
from tests.reference.node_loads import random_load
from tests.reference.nodes_both_ways import How, fixed_scores, prepared_load
from tests.reference.test_network_against_readable_simulator import network_of_waits

ORDERS = ("fifo", "fixed", "site", "multifactor", "network")


class Site:
    """A load on nodes under an order, and the same of some of its jobs only."""

    def __init__(self, seed: int, name: str, backfilling: str) -> None:
        load, how = random_load(seed), How(backfilling, name, kill_at_limit=seed % 2 == 0)
        prepared, self.workload = prepared_load(load, how)
        scores = -self.workload.submit
        self.order = {
            "fifo": QueueOrder(scores=scores),
            "fixed": QueueOrder(scores=fixed_scores(len(scores))),
            "site": QueueOrder(site=site_priority(prepared, load.machine)),
            "multifactor": QueueOrder(rule="multifactor"),
            "network": QueueOrder(network=network_of_waits()),
        }[name]
        self.machine = node_machine(prepared.log, load.machine)
        self.settings = SimulationSettings(
            capacity=prepared.capacity, backfilling=backfilling, half_life=900.0
        )

    def run_of(self, jobs: IntArray) -> Run:
        """Before the first event."""
        workload, machine = self.workload.select(jobs), self.machine.of_jobs(jobs)
        return Run.on_nodes(workload, machine, self.order.of_jobs(jobs), self.settings)


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("seed", range(4))
def test_told_the_truth_a_replay_gives_the_truth(seed: int, name: str, backfilling: str) -> None:
    site = Site(seed, name, backfilling)
    count = len(site.workload.submit)
    whole = site.run_of(np.arange(count)).finish().start
    under_way, ran = site.run_of(np.arange(count)), 0
    for job in range(3, count, 4):
        now = float(site.workload.submit[job])
        under_way.run_until(float(np.nextafter(now, -np.inf)))
        met = queue_met(under_way, job, now)
        ran += len(met.running)
        present = np.sort(np.concatenate([met.running, met.pending]))
        rows = np.concatenate([present, np.arange(job + 1, count)])
        rest, order = site.workload.select(rows), site.order.of_jobs(rows)
        run, runs = run_before(met, rest, rows, order, site.settings, site.machine)
        run.resume(met.now, runs, met.start, met.held, met.looks)
        for number in met.running.tolist():
            place = int(np.searchsorted(present, number))
            assert run.place_of(place) == under_way.place_of(number)
        run_until_started(run, np.arange(len(rows)), np.inf, 0.0)
        np.testing.assert_array_equal(run.cluster.start, whole[rows])
    assert ran > 0
