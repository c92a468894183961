"""An array of which Slurm changes some tasks: it names each, those that it changed too."""

from __future__ import annotations

import pytest

from slurm_rl_plugin.batch_systems.command_process import Answer
from slurm_rl_plugin.batch_systems.slurm.site_factor import Scontrol, still_waiting
from slurm_rl_plugin.errors import BatchSystemError


class Says:
    """`scontrol` that answers with given words."""

    def __init__(self, errors: str, status: int) -> None:
        self.answer = Answer(status=status, output="", errors=errors)

    def call(self, arguments: object, **more: object) -> Answer:
        return self.answer


def refused(errors: str, status: int, *jobs: int) -> dict[int, str]:
    return Scontrol(Says(errors, status)).send([(job, 7) for job in jobs])  # type: ignore[arg-type]


# seen on 22.05: an array with a task that ended, one that was split off, and others
SOME = "32_[3-6]: No error\n32_2: No error\n32_1: Job has already finished\n"


@pytest.mark.parametrize("status", [0, 1])
def test_an_array_that_was_changed_in_part_is_not_refused(status: int) -> None:
    assert refused(SOME, status, 32, 33) == {}
    assert refused(f"{SOME}Invalid job id specified for job 33\n", status, 32, 33) == {
        33: "Invalid job id specified"
    }


@pytest.mark.parametrize("status", [0, 1])
def test_one_that_was_not_changed_at_all_is(status: int) -> None:
    words = "32_1: Job has already finished\n32_2: Job has already finished\n"
    found = refused(words, status, 32)
    assert found == {32: "Job has already finished"}
    assert still_waiting(found) == frozenset()


def test_a_failure_that_names_no_job_is_one() -> None:
    with pytest.raises(BatchSystemError):
        refused("scontrol: something odd\n", 1, 32)


@pytest.mark.parametrize("status", [0, 1])
def test_bytes_that_are_no_text_are_no_answer(status: int) -> None:
    garbage = bytes(range(256)).decode(errors="replace")
    with pytest.raises(BatchSystemError, match="not understood"):
        refused(garbage, status, 32)
