"""What jobs are billed for a second, by hand and against Slurm's own loop written out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from slurm_rl_plugin.domain.billing import DEAREST, DEAREST_AND_GRES, Billing, billed_each_second
from slurm_rl_plugin.domain.resources import ResourceRequests

NAMES = ("cpus", "memory", "gpus", "gres/gpu:a100", "license/matlab")
WEIGHTS = {"cpus": 1.0, "memory": 0.25 / 1024, "gpus": 2.0, "nodes": 3.0, "license/matlab": 5.0}
#: CPUs, MiB, GPUs, those of a type, licences; nodes
TOTAL = np.array([[4.0, 16384.0, 0.0, 0.0, 0.0], [2.0, 1024.0, 4.0, 4.0, 1.0]])
NODES = np.array([1, 2])


def bills(
    weights: Mapping[str, float], *flags: str, total: np.ndarray = TOTAL, nodes: np.ndarray = NODES
) -> list[float]:
    count = len(total)
    return billed_each_second(
        Billing(weights={"gpu": weights}, flags=frozenset(flags)),
        ("gpu",),
        np.zeros(count, dtype=np.int64),
        total[:, 0].astype(np.int64),
        ResourceRequests.of_totals(total, names=NAMES, nodes=nodes),
        ("",) * count,
    ).tolist()


def slurms_bill(weights: Mapping[str, float], flags: tuple[str, ...], amounts: Mapping) -> float:
    """`assoc_mgr_tres_weighted`: one TRES after the other."""
    node = gres = everywhere = 0.0
    for name, amount in amounts.items():
        cost = amount * weights.get(name, 0.0)
        is_gres = name == "gpus" or name.startswith("gres/")
        if flags and (is_gres or name in ("cpus", "memory", "nodes")):
            if DEAREST_AND_GRES in flags and is_gres:
                gres += cost
            else:
                node = max(node, cost)
        else:
            everywhere += cost
    return node + gres + everywhere


def test_a_partition_without_weights_and_a_job_that_asks_for_nothing_else_are_billed_their_cpus():
    billing = Billing(weights={"gpu": WEIGHTS, "batch": {}})
    assert not billing.counts_cpus
    assert Billing(weights={"batch": {}}, factors={"normal": 1.0}).counts_cpus
    found = billed_each_second(
        billing, ("batch", "gpu"), np.array([0, 1, -1]), np.array([6, 7, 8]), None, ("",) * 3
    )
    assert found.tolist() == [6, 7 + 3, 8]


def test_the_factor_of_a_jobs_qos_multiplies_its_bill():
    billing = Billing(
        weights={"gpu": {"cpus": 2.0}, "batch": {}},
        factors={"dear": 1.5, "free": 0.0, "normal": 1.0},
    )
    assert not Billing(weights={}, factors={"free": 0.0}).counts_cpus
    qos = ("dear", "free", "normal", "dear", "")
    place, cpus = np.array([0, 0, 0, 1, 1]), np.array([4, 4, 4, 4, 4])
    found = billed_each_second(billing, ("batch", "gpu"), place, cpus, None, qos)
    assert found.tolist() == [6, 0, 4, 12, 8]


@pytest.mark.parametrize(
    "flags", [(), (DEAREST,), (DEAREST_AND_GRES,), (DEAREST, DEAREST_AND_GRES)], ids=str
)
def test_bills_are_those_of_slurms_loop(flags: tuple[str, ...]) -> None:
    rng = np.random.default_rng(7)
    for _ in range(50):
        names = rng.permutation([*WEIGHTS, "gres/gpu:a100"])[: rng.integers(1, 7)].tolist()
        weights = {name: float(rng.choice([0.0, 0.003, 0.5, 1.0, 20.0])) for name in names}
        total = rng.integers(0, 5, (30, len(NAMES))).astype(np.float64)
        total[:, 1] *= 1000.0
        nodes = rng.integers(1, 4, 30)
        expected = [
            slurms_bill(weights, flags, {**dict(zip(NAMES, row, strict=True)), "nodes": count})
            for row, count in zip(total.tolist(), nodes.tolist(), strict=True)
        ]
        assert bills(weights, *flags, total=total, nodes=nodes) == pytest.approx(
            expected, rel=1e-7, abs=1e-7
        )


def test_a_bill_that_is_taken_away_again_leaves_nothing():
    billed = np.array(
        bills(
            {"cpus": 0.1, "memory": 1e-5},
            total=np.repeat(TOTAL, 50, axis=0) * np.arange(1.0, 101.0)[:, None],
            nodes=np.ones(100, dtype=int),
        )
    )
    rate = 0.0
    for each in billed:
        rate += each
    for each in np.random.default_rng(1).permutation(billed):
        rate -= each
    assert rate == 0.0
