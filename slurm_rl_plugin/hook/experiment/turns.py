"""Whose turn it is: the site's own order, or ours; in doubt the site's.

Where a candidate is on trial against the model in service, it is the latter's in doubt.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from slurm_rl_plugin.domain.switchback import ARMS, OURS, SITE, Declaration, TurnBlock
from slurm_rl_plugin.hook.experiment.files import (
    RUNNING,
    ExperimentFiles,
    ExperimentReport,
    ExperimentStanding,
    GoalSeen,
    InForce,
)
from slurm_rl_plugin.whole_file import version_of

logger = logging.getLogger(__name__)

#: Part of a day after which an unwatched experiment is left to the site, and at least seconds.
_UNWATCHED, _AT_LEAST = 1.0 / 24.0, 60.0
#: Part of a day after which the journal says again what is in force.
_STILL = 1.0 / 144.0


@dataclass(frozen=True, slots=True)
class Turn:
    """What is to be done in a cycle.

    Attributes:
        arm: of the block, one of ARMS; "" where there is no experiment, or none any more.
        left_to_site: nothing is written, and what was is taken back.
        why: it is left to the site, or to the model in service, although somebody declared
            otherwise; "" for no reason.
        candidate: that has the turn, as [policy] model would name it; "" for the configured model.
        model_sha256: what the candidate's file has to be.
    """

    arm: str = ""
    left_to_site: bool = False
    why: str = ""
    candidate: str = ""
    model_sha256: str = ""


@dataclass(slots=True, kw_only=True)
class ExperimentTurns:
    """Decides whose turn it is, and notes in the journal what was in force.

    Attributes:
        files: of the experiment.
    """

    files: ExperimentFiles
    _versions: tuple[object, ...] | None = None
    _declared: Declaration | None = None
    _standing: ExperimentStanding | None = None
    _fault: str = ""
    _is_challenged: bool = False
    _look: object = None
    _noted: InForce | None = None
    _told: Turn = field(default_factory=Turn)
    _found: tuple[object, tuple[GoalSeen, ...], int] = (None, (), 0)

    def turn(self, now: float, policy: str, model_sha256: str) -> Turn:
        """Whose turn it is."""
        self._read()
        found = self._turn(now, policy, model_sha256)
        if found != self._told:
            logger.info(
                "experiment=%s left_to_site=%s%s",
                found.arm or "none",
                "yes" if found.left_to_site else "no",
                f" reason={found.why}" if found.why else "",
            )
        self._told = found
        return found

    def note(self, turn: Turn, mode: str, now: float, misdelivered: float | None = None) -> None:
        """Remember what was in force, where that has changed or a while has passed."""
        if self._declared is None or mode == "standby":  # whose daemon acts writes
            self._noted = None
            return
        entry = InForce(time=now, arm=turn.arm, mode=mode, why=turn.why, misdelivered=misdelivered)
        last = self._noted
        same = last is not None and (last.arm, last.mode, last.why) == (turn.arm, mode, turn.why)
        # a time to come is of a clock that was set back since
        if same and last is not None and 0.0 <= now - last.time < _STILL * self._declared.day:
            return
        self._noted = entry
        self.files.note(entry)

    def seen(self, turn: Turn) -> ExperimentReport:
        """What the report of a cycle says of it."""
        if turn == Turn():
            return ExperimentReport()
        version = version_of(self.files.findings)
        if version is None or version != self._found[0]:
            self._found = (version, *self.files.goals_seen())
        given = turn.arm != SITE if turn.left_to_site else bool(turn.why)
        return ExperimentReport(
            phase="left_to_site" if given else turn.arm,
            state=self._standing.state if self._standing is not None else "",
            goals=self._found[1],
            pairs=self._found[2],
        )

    def _read(self) -> None:
        files = (self.files.declaration, self.files.standing)
        versions = tuple(map(version_of, files))
        if versions == self._versions:  # they hardly ever change, the look each minute
            self._read_look()
            return
        self._versions, self._declared, self._standing, self._fault = versions, None, None, ""
        try:
            self._declared = self.files.declared()
            self._is_challenged = self._declared is not None and bool(self._declared.candidate)
            if self._declared is not None:
                self._standing = self.files.stands()
        except (OSError, ValueError) as error:
            self._fault = f"the files of the experiment cannot be read ({error})"
            self._versions = None  # what cannot be read now may be the next time
        self._look = version_of(self.files.look)

    def _read_look(self) -> None:
        version = version_of(self.files.look)
        if version != self._look and self._standing is not None:
            self._look, self._standing = version, self.files.looked_at(self._standing)

    def _turn(self, now: float, policy: str, model_sha256: str) -> Turn:
        declared, standing = self._declared, self._standing
        if self._fault:  # against a candidate the model in service goes on
            return Turn(left_to_site=not self._is_challenged, why=self._fault)
        if declared is None or standing is None:
            return Turn()
        why = _why_not(declared, standing, now)
        block = declared.block_at(now)
        arm = "" if block is None or standing.state != RUNNING else block.arm
        if not why and (policy, model_sha256) != declared.in_service:
            why = "the model is not the one declared"
        if not declared.candidate:
            return Turn(arm, left_to_site=bool(why) or arm == SITE, why=why)
        if why or arm != OURS:
            return Turn(arm, why=why)
        return Turn(arm, candidate=declared.candidate, model_sha256=declared.model_sha256)


def _why_not(declared: Declaration, standing: ExperimentStanding, now: float) -> str:
    """Why an experiment does not go on; "" where it does."""
    if standing.state != RUNNING:
        return f"the experiment is {standing.state}: {standing.reason}"
    if now >= declared.end:
        return "its time is over"
    if now < declared.begin:
        return "it has not begun"
    if not _is_watched(declared, standing, now):
        return "nobody watches it: start slurm-rl-experiment.service"
    return ""


def _is_watched(declared: Declaration, standing: ExperimentStanding, now: float) -> bool:
    """Whether the last look is recent, also after the clock was set back."""
    silence = max(_UNWATCHED * declared.day, _AT_LEAST)
    return abs(now - max(standing.looked, declared.begin)) <= silence


def held_part(
    declared: Declaration, journal: list[InForce], blocks: int, last: int | None = None
) -> float:
    """Part of the counted time of blocks in which the order was in force whose turn it was.

    The lesser of both orders' parts; 1 of none. The site's order is not in force while a job
    carries a factor of ours, which the journal has as "failed".

    Args:
        declared: the experiment.
        journal: in order of time.
        blocks: how many blocks are over.
        last: so many of them count, the last ones; None for all.
    """
    first = 0 if last is None else max(blocks - last, 0)
    over = declared.blocks[first:blocks]
    return min(_held(declared, journal, over, arm) for arm in ARMS)


def misdelivered_since_begin(journal: Sequence[InForce]) -> float:
    """Part of the last fortnight's service that went to the wrong account.

    0 where nobody knows, or where it is no larger than it was when the experiment began: that is
    not the experiment's to answer for.
    """
    told = [each.misdelivered for each in journal if each.misdelivered is not None]
    return told[-1] if told and told[-1] > told[0] else 0.0


def _in_force(declared: Declaration, entry: InForce, arm: str) -> bool:
    """Whether an order was in force in its own turn."""
    if entry.arm != arm:
        return False
    if declared.candidate:  # a model each, and no other in its place
        return entry.mode == "active" and not entry.why
    return entry.mode == ("active" if arm == OURS else "shadow")


def _held(
    declared: Declaration, journal: list[InForce], blocks: Sequence[TurnBlock], arm: str
) -> float:
    longest = 2.5 * _STILL * declared.day  # a daemon that is dead says nothing
    ends = [*(entry.time for entry in journal[1:]), math.inf]
    spans = [
        (entry.time, min(end, entry.time + longest))
        for entry, end in zip(journal, ends, strict=bool(journal))
        if _in_force(declared, entry, arm)
    ]
    mine = [block for block in blocks if block.arm == arm]
    whole = sum(block.end - block.counted_from for block in mine)
    held = sum(
        max(min(end, block.end) - max(begin, block.counted_from), 0.0)
        for block in mine
        for begin, end in spans
    )
    return held / whole if whole else 1.0
