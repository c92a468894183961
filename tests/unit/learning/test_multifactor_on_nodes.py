"""The order of PBS and Slurm on nodes: fair share, decayed usage, what the site bills."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.domain.machine import Machine, PriorityWeights
from slurm_rl_plugin.domain.share_tree import Association
from slurm_rl_plugin.learning.evaluation.paired import Candidate, starts_under
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, run_up_to
from slurm_rl_plugin.simulator.scoring.site_priority import calculate
from slurm_rl_plugin.simulator.workloads.log_workload import OF_CLUSTER, PreparedLog, prepare_log
from slurm_rl_plugin.simulator.workloads.site_points import fair_share_of_log, site_priority
from tests.unit.machine_files.written_files import machine_of_lines
from tests.unit.simulator.test_log_workload import small_log


def test_an_account_that_the_description_lacks_has_one_share_below_the_root(
    tmp_path: Path,
) -> None:
    """As one that was made since a live machine was described, an hour ago at most."""
    machine = machine_of_lines(
        tmp_path,
        "NodeName=n1 CPUs=2 RealMemory=16000",
        "PartitionName=batch Nodes=ALL Default=YES",
        "PriorityWeightFairshare=1000",
    )
    machine = replace(machine, associations=(Association("a0", parent="root", share=3.0),))
    log = small_log([60, 60], [1, 1], [0, 1], partitions=("batch",))
    prepared = replace(prepare_log(log, machine=machine), shares_from=OF_CLUSTER)
    tree = fair_share_of_log(prepared, machine).tree
    assert tree.fraction.max() == pytest.approx(1.0)
    assert {0.25, 0.75} <= set(tree.fraction.round(9).tolist())


@pytest.mark.parametrize(
    ("formula", "last"),
    [
        ("ncpus", [100.0, 200.0, 400.0]),  # equals go as they came
        ("ncpus - walltime/60", [400.0, 200.0, 100.0]),
        ("-queue_priority - eligible_time", [400.0, 200.0, 100.0]),
        ("fairshare_factor", [300.0, 100.0, 400.0]),
        ("-fair_share_perc", [100.0, 200.0, 400.0]),
    ],
)
def test_a_formula_of_pbs_is_the_sites_own_priority(
    tmp_path: Path, formula: str, last: list[float]
) -> None:
    """A job runs; of three that wait the first has its account, and the last asks for least."""
    machine = machine_of_lines(
        tmp_path, "NodeName=n1 CPUs=2 RealMemory=16000", "PartitionName=batch Nodes=ALL"
    )
    machine = replace(machine, weights=PriorityWeights(formula=formula, half_life=math.inf))
    log = small_log([100, 100, 200, 100], [2, 2, 2, 2], [0, 0, 1, 1], partitions=("batch",))
    submit = np.array([0.0, 10.0, 20.0, 30.0])
    log = replace(log, submit=submit, eligible=submit, time_limit=np.array([1e3, 900, 600, 300]))
    prepared = prepare_log(log, machine=machine, shares={"a0": 0.5, "a1": 0.5})
    settings = SimulationSettings(capacity=2, backfilling="none")
    candidate = Candidate(name="multifactor")
    found = starts_under(candidate, prepared, prepared.workload(None), settings)
    assert found[1:].tolist() == last


#: grp has 60 % of the tree (ann 50, bob 10), cat 30, all others 10 together.
TREE = (
    Association("unknown", parent="root", share=10),
    Association("grp", parent="root", share=60),
    Association("grp", "ann", share=50),
    Association("grp", "bob", share=10),
    Association("root", "cat", share=30),
)
USERS = ("ann", "bob", "cat", "dan", "eve")
CLASSIC = frozenset({"NO_FAIR_TREE"})
SETTINGS = SimulationSettings(capacity=2, backfilling="none")


def pbs(folder: Path, weights: PriorityWeights, entity: str = "users") -> Machine:
    machine = machine_of_lines(
        folder, "NodeName=n1 CPUs=2 RealMemory=16000", "PartitionName=workq Nodes=ALL"
    )
    return replace(machine, associations=TREE, entity=entity, weights=weights)


def prepared(
    machine: Machine,
    users: list[int],
    submit: list[float],
    run_time: list[int],
    shares: dict[str, float] | None = None,
) -> PreparedLog:
    """Jobs of the whole machine, each of one of USERS."""
    count = len(users)
    log = small_log(run_time, [2] * count, [0] * count, partitions=("workq",))
    at = np.array(submit)
    log = replace(log, submit=at, eligible=at, user=np.array(users), users=USERS)
    return prepare_log(log, machine=machine, shares=shares)


def order(machine: Machine, users: list[int]) -> list[str]:
    """By which user the waiting jobs start; cat runs first, for 140 s, and all others come then."""
    who, count = [2, *users], len(users)
    submit = [0.0, *(10.0 + each for each in range(count))]
    log = prepared(machine, who, submit, [140] + [100] * count)
    start = starts_under(Candidate(name="multifactor"), log, log.workload(None), SETTINGS)
    return [USERS[who[at]] for at in np.argsort(start)][1:]


def factors(machine: Machine, log: PreparedLog, until: float) -> dict[str, float]:
    """fairshare_factor of each entity at a time of the replay."""
    site = site_priority(log, machine)
    workload: Workload = log.workload(None)
    queue = SETTINGS.ordered_queue(workload, QueueOrder(site=site))
    cluster = SETTINGS.empty_cluster(workload)
    run_up_to(cluster, queue, until)
    calculate(cluster, queue.network)
    fair = queue.network.fair
    return {
        USERS[user]: float(fair.factors[at])
        for user, at in zip(log.log.user, fair.association, strict=True)
    }


def test_the_factor_is_that_of_the_documented_formula(tmp_path: Path) -> None:
    """200 units of ann, 200 of cat, 100 of dan, whom no line names: 2^-(usage factor / percentage).

    Usage of a node plus its part of what its group has more; groups at the top have their own.
    """
    weights = PriorityWeights(formula="fairshare_factor", flags=CLASSIC, half_life=math.inf)
    machine = pbs(tmp_path, weights)
    log = prepared(machine, [0, 2, 3, 1, 4], [0, 0, 0, 300, 300], [100, 100, 50, 1, 1])
    found = factors(machine, log, 299.0)
    assert found == pytest.approx(
        {
            "ann": 2 ** -(0.4 / 0.5),  # all usage of grp is hers
            "bob": 2 ** -((0.0 + (0.4 - 0.0) * 1 / 6) / 0.1),
            "cat": 2 ** -(0.4 / 0.3),
            "dan": 2 ** -(0.2 / 0.05),  # dan and eve have half of the unknown group each
            "eve": 2 ** -((0.0 + (0.2 - 0.0) / 2) / 0.05),
        }
    )


@pytest.mark.parametrize(
    ("decay", "ratio"),
    [
        ({"half_life": math.inf}, 1.0),
        ({"decay_every": 1000.0, "decay_factor": 0.25, "half_life": 500.0}, 0.25),
    ],
)
def test_usage_decays_by_steps(tmp_path: Path, decay: dict[str, float], ratio: float) -> None:
    """cat ran for 100 s before the step, ann for 100 s behind it."""
    weights = PriorityWeights(formula="fairshare_factor", flags=CLASSIC, **decay)
    machine = pbs(tmp_path, weights)
    log = prepared(machine, [2, 0, 1], [0, 1500, 1700], [100, 100, 1])
    found = factors(machine, log, 1699.0)
    own = ratio / (1.0 + ratio)  # of cat
    assert found["cat"] == pytest.approx(2 ** -(own / 0.3))
    before = factors(machine, log, 900.0)  # between steps nothing decays
    assert before["cat"] == pytest.approx(2 ** -(1.0 / 0.3))


def test_fair_share_sorts_by_the_groups_usage_for_its_percentage(tmp_path: Path) -> None:
    """At 340 s grp has used 400 and cat 280, at 440 s grp 600: cat is then behind her shares."""
    machine = pbs(tmp_path, PriorityWeights(fairshare=1e6, period=0.0, half_life=math.inf))
    assert order(machine, [2, 1, 0, 1, 0]) == ["bob", "ann", "ann", "cat", "bob"]


def test_the_tree_of_accounts_gives_the_logs_shares(tmp_path: Path) -> None:
    machine = pbs(tmp_path, PriorityWeights(), "accounts")
    log = small_log([100, 100, 100], [2, 2, 2], [0, 1, 2], partitions=("workq",))
    found = prepare_log(replace(log, accounts=("ann", "cat", "new")), machine=machine)
    assert found.shares_from == "cluster"
    shares = dict(zip(found.accounts, found.shares.tolist(), strict=True))
    assert shares == pytest.approx({"ann": 50 / 90, "cat": 30 / 90, "new": 10 / 90})


def test_given_shares_go_before_the_tree(tmp_path: Path) -> None:
    machine = pbs(tmp_path, PriorityWeights(formula="fairshare_perc", half_life=math.inf))
    log = prepared(machine, [0, 2], [0, 0], [10, 10], shares={"a0": 1.0})
    assert site_priority(log, machine).points.tolist() == [1e6, 1e6]
