"""Memory and GPUs by squeue and sinfo, as recorded on each release and in a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.port import FactorChange
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    NodeRequest,
    node_request,
    parse_records,
    queue_fields,
)
from slurm_rl_plugin.batch_systems.slurm.answers.machine import (
    SHOW_ASSOCIATIONS,
    SHOW_NODES,
    SHOW_PARTITIONS,
    SHOW_QOS,
    SHOW_USERS,
    parse_nodes,
    read_billing,
    read_running_cluster,
)
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SHOW_CONFIG, parse_settings
from slurm_rl_plugin.batch_systems.slurm.queue.reader import whole_jobs
from slurm_rl_plugin.domain.machine import ResourceLimit
from slurm_rl_plugin.domain.nodes import most_free, resources_now
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES
from slurm_rl_plugin.errors import BatchSystemError
from tests.assets.record_slurm_answers import ASSETS, MARK
from tests.case_files import rows
from tests.fakes.fake_cluster import NOW, FakeCluster
from tests.fakes.pyslurm_cluster import PyslurmCluster

GPU_NODES = [
    {"name": "n1", "cpus": "3/1/0/4", "partitions": ["batch"], "memory": 8000, "memory_used": 6000},
    {
        "name": "g1",
        "cpus": "1/7/0/8",
        "partitions": ["batch", "short"],
        "memory": 64000,
        "gres": "gpu:a100:4(S:0-1)",
        "gres_used": "gpu:a100:1(IDX:0)",
    },
    {"name": "g2", "cpus": "0/0/8/8", "partitions": ["short"], "memory": 64000, "state": "drained"},
]
COUNTED = {"SelectTypeParameters": "CR_CORE_MEMORY", "GresTypes": "gpu"}


def asking(
    counts: tuple[str, ...],
    per: tuple[str, ...],
    licences: str = "(null)",
    constraint: str = "(null)",
    shares: str = "OK",
    sockets: str = "*",
) -> NodeRequest:
    """What is read of fields: the counts, tres-per-job to tres-per-task, and the last two."""
    return node_request((*counts, shares, sockets, "N/A", *per, licences, constraint))


@pytest.fixture
def cluster(cluster: FakeCluster) -> FakeCluster:
    cluster.set(nodes=GPU_NODES, settings=COUNTED)
    return cluster


def test_requests_of_each_release(answers: Path):
    text = (answers / "machine-squeue.txt").read_text()
    year, month = answers.name.split(".")
    fields = queue_fields(requests=True, release=(int(year), int(month)))
    rows = {
        row.job_id: row for row in whole_jobs([*parse_records(text, MARK, {}, fields).values()])
    }
    asked = {job: row.asked for job, row in rows.items()}
    assert asked[1] == ((("memory", 600.0),), 1, 1, True, True, "")
    assert asked[2] == ((("memory", 6144.0),), 2, 1, False, True, "")
    typed = (("gpus", 4.0), ("gres/gpu:a100", 4.0), ("memory", 1400.0))
    assert asked[3] == (typed, 2, 1, False, True, "")
    assert asked[4].amounts == (("gpus", 1.0), ("gres/gpu:a100", 1.0), ("memory", 700.0))
    assert asked[5] == ((("gpus", 3.0), ("memory", 700.0)), 1, 2, False, True, "")
    assert asked[6] is not None  # a heterogeneous job of two components, on two partitions
    assert dict(asked[6].amounts) == {"gpus": 2.0, "memory": 800.0}
    alone, with_features = asked[8], asked[9]  # the components of job 6 are 6 and 7
    assert with_features is not None
    assert alone.exclusive  # as is each job of the partition gpu, by OverSubscribe=EXCLUSIVE
    assert not asked[6].exclusive
    licences = (("license/ansys", 1.0), ("license/matlab", 2.0))
    assert alone.amounts[:2] == licences
    assert with_features.constraint == "big|(ib&big)"
    assert rows[9].name == "trial"


def test_nodes_of_each_release(answers: Path):
    nodes = parse_nodes((answers / "machine-sinfo.txt").read_text(), counts_memory=True)
    assert [node.name for node in nodes] == ["g01", "g02", "g03", "n1", "n2"]
    assert nodes[0].partitions == {"batch", "short", "gpu"}
    assert nodes[0].features == {"big", "ib"}
    machine = resources_now(nodes)
    assert machine.names == (*BASIC_RESOURCES, "gres/gpu:a100")
    assert machine.capacity.tolist() == [28.0, 40000.0, 6.0, 6.0]  # n2 is drained
    assert most_free(nodes, "gpus") == 2.0
    line = "n1|batch|0/4/0/4|16000|0|(null)|gpu:0|(null)|idle|\n"
    assert resources_now(parse_nodes(line, counts_memory=False)) is None


@rows("slurm", "requests", "counts per more amounts")
def test_amounts_that_a_job_requests(
    counts: list[str], per: list[str], more: dict[str, str], amounts: dict[str, float]
):
    assert asking(tuple(counts), tuple(per), **more).amounts == tuple(amounts.items())


def test_cpus_of_each_gpu_are_processors_of_a_pending_job(cluster: FakeCluster):
    """squeue counts them in NumCPUs only once the job runs."""
    cluster.set(settings=COUNTED)
    cluster.add(11, asks="cpu=4,mem=1G,node=1", processors=4, per_job="gres:gpu:3", per_gpu=2)
    cluster.add(12, asks="cpu=9,mem=1G,node=1", processors=9, per_job="gres:gpu:3", per_gpu=2)
    system = cluster.adapter()
    system.facts()
    jobs = system.snapshot().pending.jobs
    assert (jobs.job_id.tolist(), jobs.processors.tolist()) == ([11, 12], [6, 9])


def test_what_is_not_understood_is_left_out():
    odd = asking(
        ("cpu=?", "many", "", "?"),
        ("gres:gpu:a:b:c", "license/x:2", "(null)", "||"),
        "?|",
        "(null)",
    )
    assert odd == ((), 0, 1, False, False, "")


@pytest.mark.parametrize(("release", "field"), [("24.11.5", "OverSubscribe"), ("26.05.0", "Excl")])
def test_exclusive_constraints_and_licences_are_in_the_columns(
    cluster: FakeCluster, release: str, field: str
):
    """As the simulator's workloads have them; the name behind them is what the user wrote."""
    cluster.set(settings={**COUNTED, "SLURM_VERSION": release, "Licenses": "matlab:2,ansys:1"})
    cluster.add(11, asks="cpu=1,mem=1G,node=1", exclusive=True, name="a|;|b|c")
    cluster.add(12, asks="cpu=1,mem=1G,node=1", constraint="a100|(ib&v100)")
    cluster.add(13, asks="cpu=1,mem=1G,node=1", licenses="matlab:2")
    system = cluster.adapter()
    system.facts()
    snapshot = system.snapshot()
    jobs, requests = snapshot.pending.jobs, snapshot.pending.jobs.requests
    assert jobs.job_id.tolist() == [11, 12, 13]
    assert snapshot.resources is not None
    assert requests.exclusive.tolist() == [True, False, False]
    assert [requests.constraints[each] for each in requests.constraint] == [
        *("", "a100|(ib&v100)", ""),
    ]
    assert requests.of("license/matlab").tolist() == [0.0, 0.0, 2.0]
    assert "license/matlab" not in snapshot.resources.names  # no node has any
    assert snapshot.weighed(jobs).size.max() < 8.0  # and no job weighs by them
    fields = queue_fields(requests=True, release=system._machine.release)
    assert any(field in each for each in fields)


def test_what_is_left_on_a_node_taken_whole_is_not_free(cluster: FakeCluster):
    cluster.add(11, processors=8, asks="cpu=8,mem=1G,node=1", exclusive=True)
    cluster.run_job(11)
    cluster.change(11, nodes="g1")
    now = cluster.adapter().snapshot().resources
    assert now.capacity.tolist() == [12.0, 72000.0, 4.0, 4.0]
    assert now.free.tolist() == [4.0, 8000.0, 0.0, 0.0]  # of n1


def test_of_a_node_without_a_free_processor_nothing_is_free():
    line = "g1|batch|8/0/0/8|64000|1000|gpu:a100:4|gpu:a100:1|ib,big|allocated|\n"
    (node,) = parse_nodes(line, counts_memory=True)
    assert [node.free(name) for name in BASIC_RESOURCES] == [0.0, 0.0, 0.0]
    assert node.features == {"ib", "big"}
    (away,) = parse_nodes(line.replace("allocated", "draining"), counts_memory=True)
    assert away.usable("gpus") == 1.0
    with pytest.raises(BatchSystemError, match="sinfo answered a line"):
        parse_nodes("n1|batch|0/4\n", counts_memory=True)


def test_a_snapshot_tells_requests_and_what_is_free(cluster: FakeCluster):
    cluster.add(11, processors=2, asks="cpu=2,mem=4G,node=1,gres/gpu=2", per_node="gres:gpu:2")
    cluster.add(12, asks="cpu=1,mem=500M,node=1")
    cluster.add(13, asks="cpu=1,mem=1000M,node=1,gres/gpu=1", per_job="gres:gpu:a100:1")
    cluster.run_job(13)
    snapshot = cluster.adapter().snapshot()
    names = (*BASIC_RESOURCES, "gres/gpu:a100")
    requests = snapshot.pending.jobs.requests
    assert requests.names == names
    by_job = dict(zip(snapshot.pending.jobs.job_id.tolist(), requests.total.tolist(), strict=True))
    assert by_job == {11: [2.0, 4096.0, 2.0, 0.0], 12: [1.0, 500.0, 0.0, 0.0]}
    now = snapshot.resources
    assert now.names == names
    assert now.capacity.tolist() == [12.0, 72000.0, 4.0, 4.0]
    assert now.beside.tolist() == [12.0, 12.0, 8.0, 8.0]  # of GPUs the processors of g1
    assert now.free.tolist() == [11.0, 71000.0, 3.0, 3.0]


def test_processors_alone_cost_no_further_question(cluster: FakeCluster):
    cluster.set(settings={"SelectTypeParameters": "CR_CORE", "GresTypes": "(null)"})
    cluster.add(11, asks="cpu=1,mem=16G,node=1,gres/gpu=2")
    calls: list[str] = []
    snapshot = cluster.adapter(on_call=lambda call: calls.append(call[0])).snapshot()
    assert snapshot.resources is None
    assert snapshot.pending.jobs.requests is None
    assert calls.count("sinfo") == calls.count("squeue") == 1


def test_nodes_are_asked_for_once_a_minute(cluster: FakeCluster):
    cluster.add(11)
    calls: list[str] = []
    system = cluster.adapter(on_call=lambda call: calls.append(call[0]))
    for seconds, questions in ((0, 2), (10, 3), (50, 4), (61, 6)):
        cluster.set(now=NOW + seconds)
        assert system.snapshot().resources is not None
        assert calls.count("sinfo") == questions
        assert calls.count("squeue") == calls.count("sshare")


@pytest.mark.parametrize("gres", ["gpu:a:b:c:4", "gpu:a100:2"])
def test_an_odd_answer_leaves_processors_alone(
    cluster: FakeCluster, gres: str, caplog: pytest.LogCaptureFixture
):
    cluster.set(nodes=[{**GPU_NODES[1], "gres": gres}])
    cluster.add(11, asks="cpu=1,mem=4G,node=1")
    snapshot = cluster.adapter().snapshot()
    odd = gres != "gpu:a100:2"
    assert (snapshot.resources is None) == odd
    assert (snapshot.pending.jobs.requests is None) == odd
    assert ("resources=unknown" in caplog.text) == odd
    assert np.array_equal(snapshot.pending.jobs.processors, [1])


def test_slurm_conf_tells_what_is_counted(answers: Path):
    told = parse_settings((answers / "machine-config.txt").read_text())
    assert (told.counts_memory, told.counts_gres) == (True, True)
    told = parse_settings((answers / "config.txt").read_text())
    assert (told.counts_memory, told.counts_gres) == (False, False)


def test_runs_of_the_past_and_of_now_tell_what_was_asked_for(tmp_path: Path) -> None:
    """As jobs that wait do, so that the same job is known again."""
    asked, got = "cpu=1,mem=2G,node=1", "cpu=2,mem=4G,node=1"
    cluster = FakeCluster(tmp_path)
    cluster.set(settings={"SelectTypeParameters": "CR_Core_Memory"})
    state = cluster.state
    state["nodes"][0]["memory"] = 16000
    cluster.set(nodes=state["nodes"])
    past = {"JobIDRaw": 7, "User": "bob", "ReqCPUS": 1, "AllocCPUS": 2, "TimelimitRaw": 10}
    times = {"Submit": NOW - 300, "Start": NOW - 200, "End": NOW - 100}
    cluster.set(accounting=[{**past, **times, "State": "COMPLETED", "ReqTRES": asked}])
    cluster.add(1, asks=asked)
    system = cluster.adapter(history_days=30.0)
    ended = system.snapshot().ended.jobs.requests
    assert ended.of("memory").tolist() == [2048]
    cluster.run_job(1)
    cluster.change(1, asks=got, processors=2)
    running = system.snapshot().running
    assert running.jobs.requests.total.tolist() == [[2, 4096, 0]]
    asked_for = running.as_requested
    assert asked_for.requests.total.tolist() == [[1, 2048, 0]]


def test_pyslurm_leaves_requests_to_squeue(tmp_path: Path):
    cluster = PyslurmCluster(tmp_path)
    cluster.set(nodes=GPU_NODES, settings=COUNTED)
    cluster.add(11, asks="cpu=1,mem=4G,node=1,gres/gpu=2")
    cluster.add(12, array_id=12, tasks="1-3", asks="cpu=1,mem=1G,node=1")
    system = cluster.adapter()
    requests = system.snapshot().pending.jobs.requests
    assert requests.of("gpus").tolist() == [2.0, 0.0]
    system.apply([FactorChange(job_id=job, old=0, new=50) for job in (11, 12)])
    assert cluster.sites == {11: 50, 12: 50}
    assert cluster.modified == [11]  # the array goes by scontrol


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


def test_the_machine_of_each_release(answers: Path) -> None:
    machine = read_running_cluster(recorded(answers)).machine
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
    assert machine.qos == {
        "normal": ResourceLimit(),
        "night": ResourceLimit(
            group={"cpus": 6.0, "gpus": 2.0}, user={"jobs": 3.0}, longest=86400.0, priority=7.0
        ),
    }
    group = {"nodes": 2.0, "memory": 1024.0, "jobs": 5.0}
    assert machine.accounts == {"physics": ResourceLimit(group=group, user={"jobs": 2.0})}
    assert machine.users == {"alice": ResourceLimit(group={"jobs": 1.0})}
    shares = {each.account: each.share for each in machine.associations if not each.user}
    assert shares == {"physics": 70.0, "biology": 30.0}
    assert machine.account_of == {"root": "root", "alice": "physics", "bob": "biology"}
    assert "n2: down or drained now, but counted." in machine.left_out
    config = answers.joinpath("machine-config.txt").read_text().replace("slurmdbd", "none")
    machine = read_running_cluster(recorded(answers, config=config, qos="no table")).machine
    assert (machine.qos, machine.parent_of) == ({}, {})  # without accounting none is asked for


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
        read_running_cluster(recorded(ASSETS / "22.05", **{name: answer}))


def test_what_each_release_bills(answers: Path) -> None:
    qos = answers.joinpath("machine-qos.txt").read_text()
    billing = read_billing(recorded(answers, qos=qos.replace("|1.000000|", "|0.250000|", 1)))
    assert billing.weights["gpu"] == {"cpus": 1.0, "memory": 0.25 / 1024, "gpus": 2.0}
    assert sorted(billing.factors.values())[:2] == [0.25, 1.0]
