"""The machine of a running Slurm, by what each release answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.answers.machine import (
    SHOW_ASSOCIATIONS,
    SHOW_NODES,
    SHOW_PARTITIONS,
    SHOW_QOS,
    SHOW_USERS,
    read_billing,
    read_running_cluster,
)
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SHOW_CONFIG
from slurm_rl_plugin.domain.machine import ResourceLimit
from slurm_rl_plugin.errors import BatchSystemError

RELEASES = sorted(Path(__file__).parents[2].joinpath("assets", "slurm").iterdir())
COMMANDS = {
    SHOW_CONFIG: "config",
    SHOW_NODES: "nodes",
    SHOW_PARTITIONS: "partitions",
    SHOW_QOS: "qos",
    SHOW_ASSOCIATIONS: "associations",
    SHOW_USERS: "users",
}


def recorded(folder: Path, **instead: str) -> Callable[[Sequence[str]], str]:
    """Answers as they were recorded, but for those named."""

    def read(command: Sequence[str]) -> str:
        name = COMMANDS[tuple(command)]
        return instead.get(name) or folder.joinpath(f"machine-{name}.txt").read_text()

    return read


@pytest.mark.parametrize("folder", RELEASES, ids=lambda path: path.name)
def test_the_machine_of_each_release(folder: Path) -> None:
    machine = read_running_cluster(recorded(folder)).machine
    assert machine.name == "trial"
    assert machine.resources == ("cpus", "memory", "gpus", "gres/gpu:a100")
    told = [(kind.name, kind.resources, kind.weight) for kind in machine.kinds]
    assert told == [
        ("g[01-03]", (6.0, 7500.0, 2.0, 2.0), 7),
        ("n[1-2]", (4.0, 16000.0, 0.0, 0.0), 1),
    ]
    batch, short, gpu = machine.partitions
    assert (batch.kinds, batch.longest, batch.is_default) == ((0, 1), 86400.0, True)
    assert (short.priority_factor, short.default_memory_per_cpu) == (10, 100.0)
    assert (gpu.kinds, gpu.tier, gpu.whole_nodes, gpu.widest) == ((0,), 3, True, 2.0)
    assert (gpu.default_memory_per_node, gpu.default_memory_per_cpu) == (700.0, 0.0)
    assert gpu.billing == {"cpus": 1.0, "memory": 0.25 / 1024, "gpus": 2.0}
    assert machine.backfill.interval == 2.0
    assert machine.weights.resources == {"cpus": 10.0, "memory": 0.03, "gpus": 300.0}
    assert machine.licences == {"matlab": 10.0, "ansys": 1.0}
    assert machine.users == {"alice": ResourceLimit(group={"jobs": 1.0})}
    assert "n2: down or drained now, and counted all the same." in machine.left_out


def test_without_accounting_no_limits_are_asked_for() -> None:
    text = RELEASES[0].joinpath("machine-config.txt").read_text()
    config = text.replace("accounting_storage/slurmdbd", "accounting_storage/none")
    machine = read_running_cluster(recorded(RELEASES[0], config=config, qos="no table")).machine
    assert (machine.qos, machine.parent_of) == ({}, {})


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("config", "Configuration data as of now\n"),
        ("nodes", "Nodes not found\n"),
        ("nodes", "NodeName=n1 CPUTot=4\n"),
        ("partitions", "No partitions in the system\n"),
    ],
)
def test_an_answer_that_is_not_understood(name: str, answer: str) -> None:
    with pytest.raises(BatchSystemError, match="not understood"):
        read_running_cluster(recorded(RELEASES[0], **{name: answer}))


@pytest.mark.parametrize("folder", RELEASES, ids=lambda path: path.name)
def test_what_each_release_bills(folder: Path) -> None:
    qos = folder.joinpath("machine-qos.txt").read_text()
    billing = read_billing(recorded(folder, qos=qos.replace("|1.000000|", "|0.250000|", 1)))
    assert billing.weights["gpu"] == {"cpus": 1.0, "memory": 0.25 / 1024, "gpus": 2.0}
    assert sorted(billing.factors.values())[:2] == [0.25, 1.0]
