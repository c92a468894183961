"""OpenPBS: what jobs ask of memory and GPUs, and what vnodes have of them, in a snapshot."""

from __future__ import annotations

from pathlib import Path

from slurm_rl_plugin.batch_systems.kind import AdapterParts
from slurm_rl_plugin.batch_systems.pbs.answers.machine import parse_nodes
from slurm_rl_plugin.batch_systems.pbs.cluster import Pbs
from slurm_rl_plugin.cli.explain import room_sentences
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, GPUS, MEMORY
from slurm_rl_plugin.services.explanation import room_of
from tests.fakes.fake_pbs_cluster import NOW, FakePbs

NODES = {
    "g1": {
        "state": "free",
        "ncpus": 8,
        "assigned": 2,
        "available": {"mem": "64gb", "ngpus": 4},
        "taken": {"mem": "8388608kb", "ngpus": 1},
    },
    "g2": {"state": "down", "ncpus": 8, "assigned": 0, "available": {"mem": "64gb", "ngpus": 4}},
}


def snapshot_of(fake: FakePbs) -> QueueSnapshot:
    given = AdapterParts(
        shares=None,
        classifier=JobClassifier(),
        clock=lambda: float(NOW),
        environment=fake.env,
    )
    return Pbs(given).snapshot()


def test_requests_and_what_is_free(tmp_path: Path) -> None:
    fake = FakePbs(tmp_path)
    fake.set_nodes(NODES)
    fake.add("1.head", job_state="R", stime=NOW - 50)
    fake.request("1.head", select="1:ncpus=2:mem=8gb:ngpus=1", mem="8gb", ncpus=2, ngpus=1)
    fake.add("2.head")
    fake.request("2.head", select="2:ncpus=1:mem=4gb:ngpus=2", mem="8gb", ncpus=2, ngpus=4)
    fake.add("3.head")
    fake.request("3.head", select="1:ncpus=2", mem=None, place="excl")
    snapshot = snapshot_of(fake)
    requests, now = snapshot.pending.jobs.requests, snapshot.resources
    assert requests is not None
    assert now is not None
    assert now.names == requests.names == BASIC_RESOURCES
    told = dict(zip(snapshot.pending.jobs.job_id.tolist(), requests.total.tolist(), strict=True))
    assert told == {2: [2.0, 8192.0, 4.0], 3: [2.0, 0.0, 0.0]}
    assert requests.exclusive.tolist() == [False, True]
    assert now.capacity.tolist() == [8.0, 65536.0, 4.0]
    assert now.free.tolist() == [6.0, 57344.0, 3.0]


def test_vnodes_of_processors_alone_tell_of_nothing_else(tmp_path: Path) -> None:
    fake = FakePbs(tmp_path)
    fake.add("1.head")
    snapshot = snapshot_of(fake)
    assert snapshot.resources is None
    assert snapshot.pending.jobs.requests is None


def test_vnodes_of_a_queue_serve_it_alone() -> None:
    amounts = {"ncpus": 8, "mem": "64gb", "ngpus": 2}
    vnodes = {
        name: {"state": "free", "queue": queue, "resources_available": amounts}
        for name, queue in (("a", "gpu"), ("b", None))
    }
    nodes = parse_nodes({"nodes": vnodes})
    assert [node.free(MEMORY) for node in nodes] == [65536.0, 65536.0]
    in_queue, elsewhere = (room_of(nodes, [name], {GPUS: 4.0}, 1) for name in ("gpu", "workq"))
    four = "It waits for 4 GPUs; 2 are free on one node, none has 4 (2 on all nodes)."
    assert room_sentences(in_queue) == room_sentences(elsewhere) == [four]
