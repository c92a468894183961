"""Which jobs PBS has started and ended between two looks, each told once."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_rl_plugin.batch_systems.pbs.answers.fields import PbsJob, parse_job
from slurm_rl_plugin.batch_systems.pbs.queue.job_watch import PbsWatch


def job(state: str, **times: int) -> PbsJob:
    told = parse_job("7.server", {"job_state": state, "ctime": 100, "qtime": 100, **times})
    assert told is not None
    return told


def nobody(names: Sequence[str]) -> list[PbsJob]:
    del names
    return []


def test_a_job_whose_prologue_runs_starts_when_it_has_a_start() -> None:
    """PBS says R of it, and tells no stime before its prologue is over."""
    watch = PbsWatch()
    started = [
        [each.start for each in watch.told([now], nobody)[0]]
        for now in (job("Q"), job("R"), job("R", stime=130), job("R", stime=130))
    ]
    assert started == [[], [], [130.0], []]


def test_a_job_that_ended_after_its_prologue_is_asked_for() -> None:
    watch = PbsWatch()
    for now in (job("Q"), job("R")):
        watch.told([now], nobody)
    over = job("F", stime=130, obittime=140)
    started, ended = watch.told([], lambda names: [over] if list(names) == ["7.server"] else [])
    assert (started, ended) == ([over], [over])


def test_a_job_that_waits_again_starts_anew() -> None:
    watch = PbsWatch()
    starts = [
        [each.start for each in watch.told([now], nobody)[0]]
        for now in (job("Q"), job("R", stime=130), job("Q"), job("R", stime=190))
    ]
    assert starts == [[], [130.0], [], [190.0]]
