"""Which soft_walltimes may be written to PBS, and whether they arrived.

pbs_server takes a soft_walltime of 0, and pbs_sched then divides by it and ends, again and again,
until it is changed. So none below a minute is ever sent; it is taken away by an empty value.
"""

from __future__ import annotations

from collections.abc import Mapping

from slurm_rl_plugin.batch_systems.pbs.answers.fields import SOFT_WALLTIME, parse_soft_walltime
from slurm_rl_plugin.batch_systems.pbs.lever.writes import ResourceSender, ResourceWrite
from slurm_rl_plugin.errors import BatchSystemError, ChangeRejected

#: Seconds. pbs_sched lengthens what a job outlives by as much again: a shorter one would make the
#: job look as if it were about to end in every cycle.
SHORTEST_ESTIMATE = 60
#: What PBS says to a user who is no manager: of the attribute, and of another's job.
_NO_RIGHT = ("insufficient permission", "Unauthorized Request")
_UNKNOWN = "Unknown Job Id"


def write_soft_walltimes(
    sender: ResourceSender, seconds: Mapping[str, int]
) -> tuple[dict[str, str], frozenset[str]]:
    """Write estimates, read them back, and return the jobs that are not as wanted, and why.

    The second value names those of them that still have one, or may.

    Args:
        sender: who sends them.
        seconds: by the name of the job, from SHORTEST_ESTIMATE on; 0 takes away.

    Raises:
        BatchSystemUnavailable: no answer in time; some may have been written.
        BatchSystemError: it cannot be told what was written.
        ChangeRejected: this user may set none at all.
    """
    if any(type(each) is not int or 0 != each < SHORTEST_ESTIMATE for each in seconds.values()):
        raise BatchSystemError(
            f"an estimate is neither 0 nor whole seconds from {SHORTEST_ESTIMATE} on"
        )
    writes = [ResourceWrite(job, str(each) if each else "") for job, each in seconds.items()]
    found = sender.send(SOFT_WALLTIME, writes, told=True)
    refused: dict[str, str] = {}
    still: set[str] = set()
    for job, wanted in seconds.items():
        now = found.get(job)
        if now is None:
            refused[job] = _UNKNOWN
        elif now.words or parse_soft_walltime(now.value) != (wanted or None):
            refused[job] = now.words or f"not read back: it has {now.value or 'none'}"
            if now.value:
                still.add(job)
    said = [words for words in refused.values() if words != _UNKNOWN]
    if said and len(refused) == len(seconds) and all(_is_no_right(words) for words in said):
        raise ChangeRejected(
            f"PBS lets nobody but managers set {SOFT_WALLTIME} ({said[0]}): "
            "make the user of this daemon one (qmgr -c 'set server managers += USER@HOST')"
        )
    return refused, frozenset(still)


def _is_no_right(words: str) -> bool:
    return any(each in words for each in _NO_RIGHT)
