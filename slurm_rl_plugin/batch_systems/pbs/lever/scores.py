"""Which scores may be written to PBS, and whether they arrived."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slurm_rl_plugin.batch_systems.pbs.answers.fields import SCORE, WAITING_STATES, parse_score
from slurm_rl_plugin.batch_systems.pbs.lever.writes import ScoreSender, ScoreWrite
from slurm_rl_plugin.batch_systems.port import LeverTraits
from slurm_rl_plugin.errors import BatchSystemError, ChangeRejected

#: PBS keeps the resource in single precision, which holds every whole number up to here.
HIGHEST_SCORE = 2**24
#: At or below 0 a job would stand behind all that have no score at all.
LOWEST_SCORE = 1
SOUND_SCORES = f"{LOWEST_SCORE}..{HIGHEST_SCORE}"
SCORE_TRAITS = LeverTraits(
    cost=f"{SCORE}: a resource that job_sort_formula sorts by; each write is a record of PBS's "
    "accounting",
    no_influence="influence_hours has no effect on PBS, which does not say what its formula makes "
    "of a job: our order comes first, and the site's own terms, fair share included, decide "
    "between jobs of one score",
    alone="beside_controllers is for Slurm alone: with PBS nobody here can tell which server is in "
    "charge, and two daemons would undo each other's order; set it to false and run one daemon",
)
_STARTED = "it waits no longer"
_UNKNOWN = "Unknown Job Id"


def is_sound(score: float) -> bool:
    """Whether PBS keeps the score exactly and starts its job: whole, finite, within bounds."""
    return LOWEST_SCORE <= score <= HIGHEST_SCORE and score == int(score)


def write_scores(
    sender: ScoreSender, writes: Sequence[ScoreWrite], default: float | None
) -> tuple[dict[str, str], frozenset[str]]:
    """Write scores, read them back, and return those that are not as wanted, and why.

    The second value names those of them that still wait, and so have to be written again.

    Args:
        sender: who sends them.
        writes: every score from LOWEST_SCORE to HIGHEST_SCORE, or None.
        default: what a job has that carries none.

    Raises:
        BatchSystemUnavailable: no answer in time; some scores may have been written.
        BatchSystemError: it cannot be told what was written.
        ChangeRejected: no job that still waits took its score.
    """
    if not all(write.score is None or is_sound(write.score) for write in writes):
        raise BatchSystemError(f"a score is no whole number of {SOUND_SCORES}")
    found = sender.send(writes)
    refused: dict[str, str] = {}
    ignored: set[str] = set()
    for write in writes:
        now = found.get(write.job)
        if now is None or now.state not in WAITING_STATES:
            refused[write.job] = _UNKNOWN if now is None else _STARTED
        elif not _as_wanted(score := parse_score(now.value), write.score, default):
            refused[write.job] = now.words or f"it was sent {write.value!r} and has {score}"
            ignored.add(write.job)
    if ignored and len(ignored) == len(writes):
        raise ChangeRejected(
            f"PBS takes no score ({refused[writes[0].job]}): make the user of this daemon a "
            f"manager or operator, and {SCORE} a resource of type float with flag i"
        )
    return refused, frozenset(ignored)


def _as_wanted(score: float | None, wanted: int | None, default: float | None) -> bool:
    if wanted is None:
        return score is None or (default is not None and math.isclose(score, default))
    return score is not None and math.isclose(score, wanted, rel_tol=1e-6)
