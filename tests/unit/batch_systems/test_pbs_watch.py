"""Which jobs PBS has started and ended between two looks, each told once."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_rl_plugin.batch_systems.pbs.answers.fields import PbsJob, parse_job
from slurm_rl_plugin.batch_systems.pbs.queue import PbsWatch


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


def test_the_last_start_of_an_array_is_known_while_a_subjob_of_it_waits() -> None:
    def of(name: str, **values: object) -> PbsJob:
        told = parse_job(name, {"ctime": 100, "qtime": 100, **values})
        assert told is not None
        return told

    watch = PbsWatch()
    rest = of("9[].server", job_state="B", array_state_count="Queued:5 Running:2 Exiting:0 ")
    assert rest.tasks == 5
    first = of("9[1].server", job_state="R", stime=130)
    second = of("9[2].server", job_state="R", stime=150)
    watch.told([rest, first, second], nobody)
    assert watch.last_start == {9: 150.0}
    watch.told([rest], nobody)
    assert watch.last_start == {9: 150.0}
    watch.told([first], nobody)
    assert watch.last_start == {}
