"""A log without a job that the nodes and limits of a machine hold is refused with the reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine, MachinePartition, NodeKind
from slurm_rl_plugin.domain.nodes import meets
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.workloads.machine_load import fit_to_machine

LICENCE = "license/matlab"


def machine(**limits: Any) -> Machine:
    """Two nodes of 4 CPUs and 16 MiB."""
    return Machine(
        kinds=(NodeKind(name="n[1-2]", count=2, resources=(4.0, 16.0, 0.0)),),
        partitions=(MachinePartition(name="p", kinds=(0,), is_default=True),),
        licences={LICENCE: 2.0},
        **limits,
    )


def log(**asked: Any) -> JobLog:
    """A plain job of a CPU, and one that asks for more."""
    extra = {"cpus": 1.0, "memory": 0.0, "licences": 0.0, "task": 1, **asked}
    total = [[1.0, 0.0, 0.0, 0.0], [extra["cpus"], extra["memory"], 0.0, extra["licences"]]]
    both = np.zeros(2, dtype=np.int64)
    requests = ResourceRequests(
        names=(*BASIC_RESOURCES, LICENCE),
        total=np.array(total),
        nodes=both,
        cpus_per_task=np.array([1, extra["task"]]),
        memory_per_cpu=np.array([False, True]),
        exclusive=np.zeros(2, dtype=np.bool_),
        constraint=both,
    )
    return JobLog(
        job_id=np.array([1, 2]),
        submit=np.zeros(2),
        eligible=np.zeros(2),
        start=np.full(2, np.nan),
        run_time=np.ones(2),
        processors=requests.total[:, 0].astype(np.int64),
        time_limit=np.ones(2),
        account=both,
        user=both,
        partition=both,
        accounts=("physics",),
        users=("ada",),
        partitions=("p",),
        requests=requests,
        kind="swf",
    )


@pytest.mark.parametrize(
    ("asked", "of_machine", "words"),
    [
        (
            {"memory": 17.0},
            {},
            ["its partition holds it (1)", "1 lack memory: they ask one node for 17", "have 16 at"],
        ),
        ({"cpus": 9.0}, {}, ["1 lack cpus: they ask for 9 or more", "have 8 together"]),
        ({"cpus": 5.0, "task": 5}, {}, ["1 lack cpus: they ask one node for 5", "have 4 at most"]),
        ({"nodes": 3, "cpus": 3.0}, {}, ["1 lack nodes"]),
        ({"licences": 3.0}, {}, ["a limit or the number of licences holds it back for ever (1)"]),
        (
            {},
            {"partitions": ("q", "r")},
            ["machine lacks (1)", "partitions p, the machine has q, r"],
        ),
        (
            {"memory": 17.0},
            {"left_out": tuple(f"sentence {n}." for n in range(10))},
            ["check --cluster. Of the machine: sentence 0. sentence 1.", "And 2 more."],
        ),
    ],
)
def test_a_refusal_says_why_no_job_fits(
    asked: dict[str, Any], of_machine: dict[str, Any], words: list[str]
) -> None:
    nodes = asked.pop("nodes", 0)
    jobs = log(**asked).select(np.array([1]))
    jobs = replace(jobs, requests=replace(jobs.requests, nodes=np.array([nodes])))
    if "cpus" not in asked:  # `log` takes memory to go with the CPUs
        jobs.requests.memory_per_cpu[:] = False
    names = of_machine.pop("partitions", ("p",))
    partitions = tuple(MachinePartition(name=name, kinds=(0,)) for name in names)
    with pytest.raises(ConfigurationError) as caught:
        fit_to_machine(jobs, replace(machine(**of_machine), partitions=partitions))
    assert all(each in str(caught.value) for each in words), str(caught.value)


NODE = frozenset({"a", "b"})


@pytest.mark.parametrize(
    ("constraint", "holds"),
    [
        ("", True),
        ("a", True),
        ("c", False),
        ("a&b", True),
        ("a,c", False),
        ("c&a|b", True),
        ("a|b&c", True),
        ("c&(a|b)", False),
        ("[a|c]*2", True),
        (" a & ( c | b ) ", True),
        pytest.param("c|" * 5000 + "a", True, id="long"),
        pytest.param("(" * 200 + "a" + ")" * 200, True, id="deep"),
    ],
)
def test_who_meets_a_constraint(constraint: str, holds: bool) -> None:
    assert meets(constraint, NODE) is holds


@pytest.mark.parametrize(
    "constraint", ["(", "a&", "|a", "(a", "a)", "()", "a(b)", "a\n", "(" * 100_000]
)
def test_what_cannot_be_read_is_told(constraint: str) -> None:
    with pytest.raises(ConfigurationError, match="is no expression over features"):
        meets(constraint, NODE)
