"""Attacker: a user of OpenPBS who changes what his job asks for, to have 0 written or be killed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.batch_systems.kind import AdapterParts
from slurm_rl_plugin.batch_systems.pbs.answers.fields import parse_job
from slurm_rl_plugin.batch_systems.pbs.cluster import Pbs
from slurm_rl_plugin.batch_systems.pbs.lever.writes import JobAfterWrite, Qalter
from slurm_rl_plugin.batch_systems.pbs.plan_estimates import estimates
from tests.fakes.fake_pbs_cluster import NOW, FakePbs

TOLD = {"job_state": "Q", "ctime": NOW, "queue": "workq"}


def adapter(fake: FakePbs) -> Pbs:
    return Pbs(
        AdapterParts(
            shares=None,
            interactive=bool,
            clock=lambda: float(NOW),
            environment=fake.env,
        )
    )


@pytest.fixture(scope="module")
def planning(tmp_path_factory: pytest.TempPathFactory) -> FakePbs:
    fake = FakePbs(tmp_path_factory.mktemp("planning"))
    fake.plan()
    return fake


class _Kept:
    """A sender that keeps what it is given, and gives it back as the server would."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def send(self, resource: str, writes: Any, *, told: bool = False) -> dict[str, JobAfterWrite]:
        assert (resource, told) == ("soft_walltime", True)
        self.sent += [write.value for write in writes]
        return {write.job: JobAfterWrite("Q", write.value) for write in writes}


SECONDS = (
    st.integers(-5, 130) | st.integers() | st.floats() | st.sampled_from([-0.0, 0.4, 59.2, 59.999])
)
WALLTIMES = (
    st.integers(0, 130).map(str)
    | st.sampled_from(
        ["", "0", "00:00:00", "00:01:00", "-5", "nan", "1e9", "99999999:00:00", "9:9"]
    )
    | st.text(max_size=8)
)


@given(SECONDS, WALLTIMES)
def test_neither_0_nor_less_than_a_minute_nor_the_walltime_is_ever_sent(
    planning: FakePbs, seconds: float, walltime: str
) -> None:
    """Whatever the hook asks for, and whatever the job asks for."""
    system = adapter(planning)
    job = parse_job("1.head", {**TOLD, "Resource_List": {"walltime": walltime}})
    assert job is not None
    sender = _Kept()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimates, "look_now", lambda *_: None)  # a child for each example
        report = system._estimates.write({1: seconds}, [job], sender)
    assert report.applied == len(sender.sent)
    for value in sender.sent:
        if seconds == 0:
            assert value == ""
        else:
            assert value == str(math.ceil(seconds))
            assert 60 <= int(value) < job.time_limit


@pytest.mark.parametrize("walltime", ["00:01:00", "00:00:30", "00:04:00", "00:05:00"])
def test_a_walltime_lowered_below_the_estimate_before_it_is_written(
    planning: FakePbs, walltime: str
) -> None:
    name = planning.add("1.head")
    system = adapter(planning)
    assert system.estimates()[1].obstacle is None
    planning.request(name, walltime=walltime)
    report = system.write_estimates({1: 300})
    assert set(report.rejected) == {1}
    assert planning.soft_walltime(name) is None


def test_a_walltime_lowered_between_the_look_and_the_write(
    planning: FakePbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server refuses it then, in its own words; nothing stands."""
    name = planning.add("1.head")
    system = adapter(planning)
    send = Qalter.send

    def slow(self: Qalter, *arguments: Any, **options: Any) -> Any:
        planning.request(name, walltime="00:02:00")
        return send(self, *arguments, **options)

    monkeypatch.setattr(Qalter, "send", slow)
    report = system.write_estimates({1: 300})
    assert "Illegal attribute or resource value" in report.rejected[1]
    assert report.later == frozenset()
    assert planning.soft_walltime(name) is None


def test_a_job_made_shrink_to_fit_gets_none(planning: FakePbs) -> None:
    name = planning.add("1.head")
    planning.request(name, min_walltime="00:05:00", max_walltime="00:20:00", walltime=None)
    assert adapter(planning).write_estimates({1: 90}).applied == 0
    assert planning.soft_walltime(name) is None
