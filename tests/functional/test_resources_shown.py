"""`queue`, `explain` and `status` of a cluster that counts memory and GPUs, over the fake Slurm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurm_rl_plugin.cli.explain import room_sentences
from slurm_rl_plugin.domain.nodes import NodeNow
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.services.job_room import LicenceRoom, Requests, room_of
from tests.functional.fake_site import FakeSite

NODES = [
    {
        "name": "g1",
        "cpus": "6/2/0/8",
        "partitions": ["batch"],
        "memory": 64000,
        "memory_used": 40000,
        "gres": "gpu:a100:4",
        "gres_used": "gpu:a100:2(IDX:0-1)",
    },
    {
        "name": "g2",
        "cpus": "8/0/0/8",
        "partitions": ["short"],
        "memory": 64000,
        "gres": "gpu:a100:4",
        "gres_used": "gpu:a100:0",
    },
]
COUNTED = {"SelectTypeParameters": "CR_CORE_MEMORY", "GresTypes": "gpu"}


@pytest.fixture
def site(empty_site: FakeSite) -> FakeSite:
    empty_site.cluster.set(nodes=NODES, settings=COUNTED)
    empty_site.wait(1, asks="cpu=1,mem=8G,node=1,gres/gpu=4", per_node="gres:gpu:a100:4")
    empty_site.wait(2, asks="cpu=2,mem=500M,node=1")
    empty_site.wait(3, asks="cpu=6,mem=40000M,node=1,gres/gpu=2", processors=6)
    empty_site.cluster.run_job(3, start=empty_site.now - 50)
    return empty_site


def test_memory_that_slurm_does_not_count_is_nowhere(site: FakeSite) -> None:
    """`CR_CPU` with GPUs: jobs share memory, so none of them waits for it."""
    site.cluster.set(settings={"SelectTypeParameters": "CR_CPU", "GresTypes": "gpu"})
    _, table, _ = site("queue")
    header, *rows = [line.split() for line in table.splitlines()]
    assert (header[-1], [row[-1] for row in rows]) == ("GPUS", ["4", "0"])
    _, text, _ = site("status")
    assert "gpus: 2 of 8 in use, 4 asked for by pending jobs" in text
    assert "memory" not in text
    for job in ("1", "2"):
        code, text, _ = site("explain", job)
        assert (code, "memory" in text) == (0, False), text


def test_queue_and_status_show_gpus_and_memory(site: FakeSite) -> None:
    header, *rows = [line.split() for line in site.out("queue").splitlines()]
    assert header[-2:] == ["GPUS", "MEMORY"]
    assert {row[1]: row[-2:] for row in rows} == {"1": ["4", "8G"], "2": ["0", "500M"]}
    table = site.out("queue", "-j", "1", "-n", "--parsable2", "-o", "jobid,resources")
    assert table.strip() == "1|cpus=1,memory=8192,gpus=4,gres/gpu:a100=4"
    jobs = site.json("queue")["jobs"]
    assert {job["jobid"]: job["gpus"] for job in jobs} == {1: 4.0, 2: 0.0}
    out = site("status")[1]
    assert "cpus: 6 of 16 in use, 2 asked for by pending jobs" in out
    assert "memory: 39.06G of 125G in use, 8.488G asked for by pending jobs" in out
    assert "gpus: 2 of 8 in use, 4 asked for by pending jobs" in out
    told: dict[str, Any] = site.json("status", code=None)["slurm"]["resources"]
    assert told["gpus"] == {"name": "gpus", "usable": 8.0, "running": 2.0, "pending": 4.0}


def test_nothing_of_it_on_a_cluster_of_processors(site: FakeSite) -> None:
    site.cluster.set(settings={})
    assert "GPUS" not in site("queue")[1]
    assert site.json("queue")["jobs"][0]["memory"] is None
    assert "It asks for" not in site("explain", "1")[1]
    assert "gpus:" not in site("status")[1]


def test_explain_says_what_a_job_waits_for(site: FakeSite) -> None:
    out = site.out("explain", "1")
    asked = "1 processor, 8G of memory, 4 GPUs, 4 gres/gpu:a100, on one node at least."
    assert f"It asks for {asked}" in out
    four = "It waits for 4 GPUs; 2 are free on one node, none has 4 (2 on all nodes)."
    assert four in out
    room = site.json("explain", "1")["room"]
    assert room["resources"]["gpus"]["most_free"] == 2.0
    assert room["nodes_with_room"] == 0
    assert "1 of its nodes have room for it now" in site.out("explain", "2")
    site.cluster.set(settings={**COUNTED, "Licenses": "slot:8"})
    site.cluster.add(7, asks="cpu=1,mem=1G,node=1", licenses="slot:9", exclusive=True)
    out = site.out("explain", "7")
    assert "9 license/slot" in out
    assert "It waits for 9 licences of slot; 8 are free." in out
    site.cluster.set(nodes=[{**NODES[0], "gres": "gpu:a:b:c:1"}])
    document = site.json("explain", "1")
    assert document["requests"] is None  # the snapshot does not have it either
    assert document["room"] is None


def node(name: str, **free: float) -> NodeNow:
    return NodeNow(name=name, partitions=frozenset({"p"}), serves=True, has=free, taken={})


def test_room_on_several_nodes_and_for_all_at_once() -> None:
    nodes = [node("a", cpus=8, gpus=0, memory=100), node("b", cpus=0, gpus=4, memory=9000)]
    apart = room_of(nodes, ["p"], Requests({CPUS: 4.0, GPUS: 2.0}, 1), {})
    assert room_sentences(apart) == [
        "Each of these is free on enough nodes, but not together on enough of them."
    ]
    two = room_of(nodes, ["p"], Requests({GPUS: 8.0}, 2), {})
    assert room_sentences(two) == ["It waits for 4 GPUs on each of 2 nodes; 1 has as many free."]
    none = room_of(nodes, ["other"], Requests({MEMORY: 2048.0}, 0), {})
    assert room_sentences(none) == ["It waits for 2G of memory; none is free on any node."]
    one = room_of(nodes, ["p"], Requests({MEMORY: 10240.0}, 0), {})
    assert room_sentences(one) == [
        "It waits for 10G of memory; 8.789G is free on one node, none has 10G (8.887G on all "
        "nodes)."
    ]


def test_whole_nodes_features_and_licences() -> None:
    old = frozenset({"old"})
    idle = replace(node("a", cpus=8, memory=100), features=old)
    busy = replace(node("b", cpus=8, memory=100), features=old, taken={CPUS: 1.0})
    new = node("c", cpus=8, memory=100)

    def said(nodes: list[NodeNow], count: int = 1, **more: Any) -> list[str]:
        asked = Requests({CPUS: 8.0 * count}, count, **more)
        return room_sentences(room_of(nodes, ["p"], asked, {}))

    whole = said([busy, idle, new], 3, exclusive=True)
    assert whole == ["It waits for 3 whole nodes; of 3 2 are idle."]
    assert said([busy, new], exclusive=True, constraint="old") == [
        "It waits for a whole node with old; of 1 0 are idle."
    ]
    assert said([busy, new], constraint="old") == [
        "It waits for 8 processors on a node with old; 7 are free on one node, none has 8 (7 on "
        "all nodes)."
    ]
    assert said([new], constraint="old") == [
        "It waits for a node with old; none of its partitions is such."
    ]
    assert said([busy, idle], 3, constraint="old|x") == [
        "It waits for 3 nodes with old|x; 2 of its partitions are such."
    ]
    assert "have room for it" in said([idle, new], constraint="old&")[0]  # cannot be read
    matlab = Requests({"license/matlab": 1.0}, 1)
    none_free = room_of([idle], ["p"], matlab, {"license/matlab": 0.0})
    assert room_sentences(none_free) == ["It waits for 1 licence of matlab; 0 are free."]
    assert none_free.licences == {"license/matlab": LicenceRoom(asked=1.0, free=0.0)}
    assert room_of([idle], ["p"], matlab, {}).licences == {}  # unknown


def test_the_shipped_model_decides_and_what_ends_is_learnt(site: FakeSite) -> None:
    site.configure("policy", model="default")
    for _ in range(2):
        assert site("run", "--once")[0] == 0
        site.cluster.end_job(3, end=site.now)
    decided = site.audited("cycle")
    assert len(decided) == 2
    assert {line["mode"] for line in decided} == {"active"}  # not fallback
    assert all(sorted(line["order"]) == [1, 2] for line in decided)
