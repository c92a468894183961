"""The fake Slurm with its commands and a fake pyslurm."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

from slurm_rl_plugin.batch_systems.slurm.adapter import Slurm
from slurm_rl_plugin.batch_systems.slurm.answers.fields import QueueRow
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.queue.reader import Squeue
from tests.fakes.fake_cluster import FakeCluster

FAKES = Path(__file__).parent
#: Only a child process may import it.
PYTHONPATH = os.pathsep.join([str(FAKES / "with_pyslurm"), str(FAKES)])
#: One of each behaviour from the first release that can change jobs to the newest.
RELEASES = ("22.5.2", "22.5.3", "25.5.0", "25.11.2")


class PyslurmCluster(FakeCluster):
    """A `FakeCluster` whose children also find a pyslurm over the same state."""

    kind = Slurm

    def __init__(self, directory: Path, release: str = RELEASES[-1]) -> None:
        super().__init__(directory)
        self.env |= {"PYTHONPATH": PYTHONPATH, "FAKE_PYSLURM": release}

    def break_pyslurm(self, mode: str) -> None:
        """Let pyslurm misbehave; the modes stand in `with_pyslurm/pyslurm`."""
        self.break_command("pyslurm", mode)

    @property
    def sites(self) -> dict[int, int]:
        """Record -> its factor."""
        return {job["job_id"]: job["site"] for job in self.state["jobs"]}

    @property
    def modified(self) -> list[int]:
        """Numbers that were given to `Job.modify`, in order."""
        numbers: list[int] = self.state.get("modified", [])
        return numbers

    @property
    def scontrol_calls(self) -> int:
        calls: int = self.state.get("scontrol_calls", 0)
        return calls


def differences(system: SlurmCommands) -> list[tuple[int, str, object, object]]:
    """What pyslurm and squeue say differently of the queue, each look a moment apart."""
    theirs = {row.job_id: row for row in Squeue(system._runner).waiting_and_running()}
    ours = {row.job_id: row for row in system._queue.waiting_and_running()}
    assert ours.keys() == theirs.keys()
    pairs = [
        (job_id, each.name, getattr(row, each.name), getattr(theirs[job_id], each.name))
        for job_id, row in ours.items()
        for each in fields(QueueRow)
    ]
    return [each for each in pairs if str(each[2]) != str(each[3])]  # NaN is not itself
