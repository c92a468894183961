"""Jobs that belong to other clusters of a federation too.

slurmctld passes each change of such a job to its origin, and the origin to every sibling. Daemons
on two clusters would overwrite each other's order for ever, so no daemon writes these jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slurm_rl_plugin.batch_systems.port import FAIL, WARN, Check
from slurm_rl_plugin.batch_systems.slurm.answers.fields import ASK_WAITING, QueueRow
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, not_understood
from slurm_rl_plugin.errors import BatchSystemError

#: Bits of a job's number; those above name the cluster of a federation that it was submitted to.
_NUMBER_BITS = 26
#: None of these fields holds a user's text, so that no mark has to tell records apart.
_SIBLINGS = (
    *("squeue", "--noheader", "--all", "--local", "--states", ASK_WAITING),
    *("-O", "ArrayJobID:|,OriginRaw:|,SiblingsViableRaw:"),
)
#: Prints the clusters of the federation, nothing where this cluster is in none.
_FEDERATION = ("scontrol", "show", "federation")
#: What `squeue` prints for a job without siblings, as a heterogeneous one.
_NO_SIBLING = "NA"


def shared_jobs(commands: CommandRunner, waiting: Iterable[QueueRow]) -> frozenset[int]:
    """Numbers of the waiting jobs and arrays that are not this cluster's alone.

    Outside a federation Slurm is not asked. A job that has come or changed since the queue was read
    counts as shared.

    Raises:
        BatchSystemUnavailable: no answer in time, or Slurm cannot be reached.
        BatchSystemError: an answer that cannot be understood.
    """
    federated = {row.array_id for row in waiting if row.array_id >> _NUMBER_BITS}
    if not federated:
        return frozenset()
    alone: set[int] = set()
    shared: set[int] = set()
    for line in commands.read(_SIBLINGS).splitlines():
        number, *clusters = line.strip().split("|")
        if not number.isdecimal() or len(clusters) != 2:
            raise not_understood("squeue", line)
        origin, siblings = clusters
        (alone if siblings in (origin, _NO_SIBLING) else shared).add(int(number))
    return frozenset(federated - (alone - shared))


def federation_checks(commands: CommandRunner, waiting: Sequence[QueueRow]) -> list[Check]:
    """What the federation keeps us from ordering; empty where this cluster is in none."""
    try:
        text = commands.read(_FEDERATION)
        shared = shared_jobs(commands, waiting)
    except BatchSystemError as error:
        return [Check(FAIL, "federation", str(error))]
    others = [
        line.split()[1].partition(":")[0]
        for line in text.splitlines()
        if line.startswith("Sibling:") and len(line.split()) > 1
    ]
    if not others:
        return []
    jobs = {row.array_id for row in waiting}
    what = (
        f"in a federation with {', '.join(others)}: {len(shared)} of {len(jobs)} waiting jobs are "
        "shared with other clusters and keep the site's own priority; submit with `sbatch "
        "-M CLUSTER` what is to be ordered here"
    )
    return [Check(WARN, "federation", what)]
