"""A limit on batch queues: ours is never above the site's own, which is always restored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.batch_systems.pbs.batch_limit import QueueUse, limit_of, parts_of
from slurm_rl_plugin.batch_systems.pbs.cluster import Pbs
from slurm_rl_plugin.batch_systems.port import LimitKeys
from slurm_rl_plugin.errors import BatchSystemUnavailable, ChangeRejected, ConfigurationError
from tests.fakes.fake_pbs_cluster import NOW, FakePbs

ALL = "o:PBS_ALL"


@pytest.fixture
def fake(tmp_path: Path) -> FakePbs:
    return FakePbs(tmp_path)


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "state.json.limits"


def adapter(fake: FakePbs, record: Path, queues: Sequence[str] = ("batch",)) -> Pbs:
    limit = LimitKeys(mechanism="max_run_res", queues=tuple(queues))
    return fake.adapter(limit=limit, limits_file=record)


def changes(fake: FakePbs) -> list[str]:
    """Changes sent to qmgr."""
    calls: list[list[str]] = fake.state.get("calls", [])
    return [words[-1] for words in calls if words[0] == "qmgr" and words[-1].startswith("set")]


def test_a_limit_comes_moves_and_goes_and_only_differences_are_written(
    fake: FakePbs, record: Path
) -> None:
    system = adapter(fake, record)
    for processors in (6, 6, 4, 4):
        system.limit_batch({"cpus": processors})
        assert fake.limits("batch") == {ALL: processors}
    assert len(changes(fake)) == 2
    system.limit_batch(None)
    system.limit_batch(None)
    assert fake.limits("batch") == {}
    assert not record.exists()
    assert fake.limits("workq") == {}


def test_the_scheduler_looks_where_a_limit_rises_and_scheduling_is_on(
    fake: FakePbs, record: Path
) -> None:
    system = adapter(fake, record)
    system.limit_batch({"cpus": 6})
    system.limit_batch({"cpus": 4})
    assert "set server scheduling = True" not in changes(fake)
    system.limit_batch({"cpus": 5})
    assert changes(fake).count("set server scheduling = True") == 1
    fake.set_server(scheduling="False")
    system.limit_batch(None)
    assert changes(fake).count("set server scheduling = True") == 1
    assert fake.state["server"]["scheduling"] == "False"


@pytest.mark.parametrize("own", [{ALL: 5}, {ALL: 5, "u:alice": 3}, {"u:alice": 3}])
def test_the_sites_own_limits_come_back_from_another_process(
    fake: FakePbs, record: Path, own: dict[str, int]
) -> None:
    """The one that set ours was killed."""
    fake.set_queue("batch", limits=own)
    adapter(fake, record).limit_batch({"cpus": 3})
    adapter(fake, record).limit_batch({"cpus": 2})
    assert fake.limits("batch") == {**own, ALL: 2}
    adapter(fake, record, queues=()).limit_batch(None)
    assert fake.limits("batch") == own
    assert not record.exists()


def test_ours_is_never_above_the_sites_own(fake: FakePbs, record: Path) -> None:
    fake.set_queue("batch", limits={ALL: 5})
    adapter(fake, record).limit_batch({"cpus": 9})
    assert fake.limits("batch") == {ALL: 5}
    assert changes(fake) == []
    assert not record.exists()


def test_a_limit_that_the_site_changed_meanwhile_is_its_own(fake: FakePbs, record: Path) -> None:
    system = adapter(fake, record)
    system.limit_batch({"cpus": 6})
    fake.set_queue("batch", limits={ALL: 5})
    system.limit_batch({"cpus": 4})
    assert fake.limits("batch") == {ALL: 4}
    fake.set_queue("batch", limits={ALL: 7})
    system.limit_batch(None)
    assert fake.limits("batch") == {ALL: 7}
    assert not record.exists()


def test_a_write_that_was_lost_is_known_for_ours_all_the_same(fake: FakePbs, record: Path) -> None:
    fake.set_queue("batch", limits={ALL: 9})
    system = adapter(fake, record)
    system.limit_batch({"cpus": 6})
    fake.break_command("qmgr", "lose")
    with pytest.raises(ChangeRejected, match="is 6 although 4 was set"):
        system.limit_batch({"cpus": 4})
    kept = json.loads(record.read_text())["queues"]["batch"]  # on disk before the limit is set
    assert (kept["own"], sorted(kept["ours"])) == (9, [4, 6])
    fake.break_command("qmgr", "")
    adapter(fake, record).limit_batch(None)
    assert fake.limits("batch") == {ALL: 9}


def test_a_queue_that_is_no_batch_queue_any_more_is_given_back(fake: FakePbs, record: Path) -> None:
    adapter(fake, record).limit_batch({"cpus": 6})
    adapter(fake, record, queues=["long"]).limit_batch({"cpus": 4})
    assert (fake.limits("batch"), fake.limits("long")) == ({}, {ALL: 4})


def test_a_queue_that_is_gone_is_forgotten(fake: FakePbs, record: Path) -> None:
    system = adapter(fake, record)
    system.limit_batch({"cpus": 6})
    fake.set(queues={})
    system.limit_batch(None)
    assert not record.exists()
    with pytest.raises(ChangeRejected, match="no queue 'batch'"):
        system.limit_batch({"cpus": 6})
    assert not record.exists()


def test_what_pbs_refuses_is_one_sentence(fake: FakePbs, record: Path) -> None:
    fake.break_command("qmgr", "deny")
    with pytest.raises(ChangeRejected, match=r"Unauthorized.*operator") as caught:
        adapter(fake, record).limit_batch({"cpus": 6})
    assert "\n" not in str(caught.value)
    fake.break_command("qmgr", "down")
    with pytest.raises(BatchSystemUnavailable):
        adapter(fake, record).limit_batch({"cpus": 6})


def test_without_a_queue_nothing_can_be_limited(fake: FakePbs, record: Path) -> None:
    system = adapter(fake, record, queues=())
    system.limit_batch(None)
    with pytest.raises(ChangeRejected, match="names no batch queue"):
        system.limit_batch({"cpus": 6})


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 2}', '{"version": 1, "queues": 3}'])
def test_a_broken_record_changes_nothing(fake: FakePbs, record: Path, content: str) -> None:
    record.write_text(content)
    for processors in (6, None):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            adapter(fake, record).limit_batch({"cpus": processors})
    with pytest.raises(ConfigurationError, match="cannot be written"):
        adapter(fake, record.parent / "none" / "limits").limit_batch({"cpus": 6})
    assert changes(fake) == []
    assert record.read_text() == content


def test_several_queues_share_the_processors(fake: FakePbs, record: Path) -> None:
    fake.set_queue("batch", in_use=4, queued=3)
    fake.set_queue("long", in_use=2, queued=1)
    system = adapter(fake, record, queues=["batch", "long"])
    system.limit_batch({"cpus": 10})
    assert (fake.limits("batch"), fake.limits("long")) == ({ALL: 7}, {ALL: 3})
    system.limit_batch({"cpus": 3})  # more runs already: cut in proportion, so that it ends up at 3
    assert (fake.limits("batch"), fake.limits("long")) == ({ALL: 2}, {ALL: 1})
    system.limit_batch(None)
    assert (fake.limits("batch"), fake.limits("long")) == ({}, {})
    # PBS counts an array that has begun as Begun, and its waiting subjobs not at all
    begun = {"state_count": "Transit:0 Queued:0 Held:0 Waiting:0 Running:0 Exiting:0 Begun:1 "}
    fake.set_queue("long", in_use=0, queued=0, attributes=begun)
    adapter(fake, record, queues=["batch", "long"]).limit_batch({"cpus": 4})
    assert (fake.limits("batch"), fake.limits("long")) == ({ALL: 3}, {ALL: 1})


def test_a_queue_that_refuses_holds_up_no_other(fake: FakePbs, record: Path) -> None:
    system = adapter(fake, record, queues=["batch", "long"])
    system.limit_batch({"cpus": 6})
    fake.set_queue("batch", max_user_res=True)
    with pytest.raises(ChangeRejected, match="Cannot mix old and new"):
        system.limit_batch(None)
    assert (fake.limits("long"), list(json.loads(record.read_text())["queues"])) == ({}, ["batch"])
    fake.set_queue("batch", max_user_res=False)
    system.limit_batch(None)
    assert fake.limits("batch") == {}
    assert not record.exists()


USES = st.builds(QueueUse, st.integers(0, 500), st.integers(0, 500))


@given(st.integers(1, 1000), st.dictionaries(st.sampled_from("abcdef"), USES, min_size=1))
def test_parts_are_all_there_is_and_no_more(processors: int, queues: dict[str, QueueUse]) -> None:
    parts = parts_of(processors, queues)
    assert set(parts) == set(queues)
    assert sum(parts.values()) == processors
    assert min(parts.values()) >= 0
    waiting = [name for name, use in queues.items() if use.waiting]
    if processors >= len(queues):
        assert all(parts[name] >= 1 for name in waiting)
    if sum(use.in_use for use in queues.values()) <= processors:
        lent = sum(not queues[name].in_use for name in waiting)
        assert all(parts[name] >= use.in_use - lent for name, use in queues.items())


def test_a_busy_queue_starves_no_other() -> None:
    """It takes each processor that becomes free, so nothing would ever be left over to share."""
    assert parts_of(10, {"a": QueueUse(10, 90), "b": QueueUse(0, 3)}) == {"a": 9, "b": 1}
    assert parts_of(10, {"a": QueueUse(30, 90), "b": QueueUse(0, 3)}) == {"a": 9, "b": 1}
    assert parts_of(10, {"a": QueueUse(10, 90), "b": QueueUse(0, 0)}) == {"a": 10, "b": 0}


@pytest.mark.parametrize(
    ("lines", "limits"),
    [
        ([], (None, None)),
        (["ncpus = [o:PBS_ALL=4]"], (4, None)),
        (["mem = [o:PBS_ALL=3gb]", "ncpus = [o:PBS_ALL=12]", "ncpus = [u:alice=3]"], (12, 3 << 20)),
        (["mem = [o:PBS_ALL=2048]"], (None, 2)),
        (["mem = [o:PBS_ALL=5mb]"], (None, 5120)),
        (["ncpus = [o:PBS_ALL=7]", "mem = [o:PBS_ALL=x]"], (7, None)),
        (["ncpus = [u:alice=3]"], (None, None)),
        (["ncpus_soft = [o:PBS_ALL=4]"], (None, None)),
    ],
)
def test_limits_in_the_words_of_qmgr(
    lines: list[str], limits: tuple[int | None, int | None]
) -> None:
    """As recorded from 23.06.06."""
    words = "\n    max_run_res.".join(["Queue batch", *lines]) + "\n"
    assert (limit_of(words), limit_of(words, "memory")) == limits
    assert limit_of(words, "gpus") is None


def test_a_queue_that_the_site_does_not_name_is_not_touched(fake: FakePbs, record: Path) -> None:
    before = adapter(fake, record)
    before.limit_batch({"cpus": 3})
    later = fake.adapter(limits_file=record, limit=LimitKeys(is_known=True))
    kept = record.read_text()
    with pytest.raises(ConfigurationError, match=r"names queue batch, but .* does not"):
        later.limit_batch(None)
    assert record.read_text() == kept
    later.go_on_from(adapter(fake, record))  # which heeds the file alone
    with pytest.raises(ConfigurationError):
        later.limit_batch(None)
    record.write_text("{")
    before.limit_batch(None)  # from the copy
    assert not record.exists()


def test_gpus_and_memory_are_limited_and_given_back(fake: FakePbs, record: Path) -> None:
    fake.set_queue("batch", limits={"mem/o:PBS_ALL": "9000000kb"})
    system = adapter(fake, record)
    system.limit_batch({"cpus": 6, "gpus": 2, "memory": 4})
    ours = {ALL: 6, f"ngpus/{ALL}": 2, f"mem/{ALL}": "4096kb"}
    assert fake.limits("batch") == ours
    kept = json.loads(record.read_text())
    assert kept["version"] == 2
    assert kept["queues"]["batch"]["memory"] == {"own": 9000000, "ours": [4096]}
    system.limit_batch({"cpus": 6})  # from another process, as after a change of [reserve]
    assert fake.limits("batch") == {ALL: 6, f"mem/{ALL}": "9000000kb"}
    assert json.loads(record.read_text())["version"] == 1
    adapter(fake, record, queues=()).limit_batch(None)
    assert fake.limits("batch") == {f"mem/{ALL}": "9000000kb"}
    assert not record.exists()


@pytest.mark.parametrize("others", [{}, {"ngpus/u:alice": 64}])
def test_a_limit_that_is_gone_does_not_come_back_with_the_server(
    fake: FakePbs, record: Path, others: dict[str, int]
) -> None:
    """The last entry of a resource that goes by `-=` is back when pbs_server starts again."""
    fake.set_queue("batch", limits=dict(others))
    system = adapter(fake, record)
    system.limit_batch({"cpus": 6, "gpus": 2, "memory": 4})
    system.limit_batch(None)
    assert fake.limits("batch") == others
    assert "back_after_restart" not in fake.state["queues"]["batch"]


def test_gpus_that_a_queue_does_not_tell_are_those_of_its_jobs(fake: FakePbs, record: Path) -> None:
    """qstat -Q shows ngpus only if the site made it with flag q."""
    for name in ("batch", "long"):
        fake.set_queue(name, in_use=2, queued=4 if name == "long" else 0)
    for job in ("1.head", "2.head"):
        fake.add(job, job_state="R", stime=NOW - 50, queue="batch")
        fake.request(job, select="1:ncpus=1:ngpus=1", ncpus=1, ngpus=1)
    fake.set(nodes={"g1": {"state": "free", "ncpus": 8, "assigned": 2, "available": {"ngpus": 4}}})
    system = adapter(fake, record, queues=["batch", "long"])
    system.snapshot()
    system.limit_batch({"gpus": 3})
    assert fake.limits("batch") == {f"ngpus/{ALL}": 2}
    assert fake.limits("long") == {f"ngpus/{ALL}": 1}
