"""The files of an experiment, and whose turn it is: the site's own order's or the daemon's.

In doubt it is the site's turn, and against a candidate the turn of the model in service.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.domain.switchback import ARMS, OURS, SITE, Declaration, TurnBlock
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.measure.intervals import BETTER, INCONCLUSIVE, WORSE
from slurm_rl_plugin.whole_file import (
    PRIVATE,
    UNREADABLE,
    append_whole,
    beside,
    kept_json,
    own_file,
    owner_of_folder,
    typed,
    write_whole,
)

logger = logging.getLogger(__name__)


#: States of an experiment; in all but the first the site's own order is in force.
RUNNING, STEPPED_BACK, STOPPED, OVER = "running", "stepped back", "stopped", "over"
STATES = (RUNNING, STEPPED_BACK, STOPPED, OVER)
#: Values of a metric: no experiment, whose block it is, or a block that is left to the site.
EXPERIMENT_PHASES = ("none", "site", "ours", "left_to_site")
#: Findings for a goal.
EXPERIMENT_WORDS = (BETTER, WORSE, INCONCLUSIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentStanding:
    """The state of an experiment."""

    state: str  #: one of STATES
    reason: str  #: one sentence; "" while the experiment runs
    at: float  #: since when, seconds since the epoch
    looked: float = 0.0  #: when its costs were last computed, seconds since the epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """What was in force from a time on, as the daemon noted it."""

    time: float  #: seconds since the epoch
    arm: str  #: whose turn it was, one of ARMS; "" for none
    mode: str  #: of the cycle, one of MODES, or "failed"
    why: str = ""  #: why the queue was left to the site in our turn; "" for no reason
    #: Part of the last fortnight's service to wrong accounts; None without shares or enough data.
    misdelivered: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalSeen:
    """The finding for one goal."""

    goal: str
    ratio: float  #: the cost of the daemon's order over that of the site's
    low: float  #: of the ratio's interval
    high: float  #: the same
    word: str  #: one of EXPERIMENT_WORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentReport:
    """An experiment as a cycle saw it."""

    phase: str = "none"  #: one of EXPERIMENT_PHASES
    state: str = ""  #: "" for none
    goals: tuple[GoalSeen, ...] = ()
    pairs: int = 0  #: of blocks that are over


class ExperimentFiles:
    """An experiment's files; ConfigurationError where the folder is not writable for this user."""

    def __init__(self, *, state_file: Path) -> None:
        """The files next to the daemon's state file."""
        self.declaration = beside(state_file, "experiment")  # what was declared
        self.standing = beside(self.declaration, "standing")  # its state
        self.look = beside(self.declaration, "look")  # when its costs were last computed
        self.journal = beside(self.declaration, "journal")  # what was in force, by time
        self.findings = beside(self.declaration, "findings")

    def declared(self) -> Declaration | None:
        """What was declared; None for nothing, OSError or ValueError where it cannot be read."""
        try:
            return Declaration.of_json(kept_json(self.declaration))
        except FileNotFoundError:
            return None

    def stands(self) -> ExperimentStanding:
        """Its state; OSError or ValueError if the file does not hold one."""
        try:
            found: ExperimentStanding = typed(ExperimentStanding, kept_json(self.standing))
        except (TypeError, KeyError, AttributeError, OverflowError) as error:
            raise ValueError(f"not a state: {error}") from None
        if found.state not in STATES or math.isnan(found.at):
            raise ValueError(f"not a state: {found.state!r}")
        try:
            looked = typed(float, kept_json(self.look))
        except UNREADABLE:
            looked = math.nan
        return replace(found, looked=max(found.at, looked))  # the first one where it is NaN

    def looked(self, now: float) -> None:
        """Record a computation at `now`; in a file of its own, so that it overwrites no state."""
        _write(self.look, now)

    def declare(self, declared: Declaration, standing: ExperimentStanding) -> None:
        """Begin one: the state is written first, so that no declaration counts without it."""
        for path in (self.findings, self.look, self.journal):
            with _reported(path):
                path.unlink(missing_ok=True)  # of an earlier one that was put away in part
        self.stand(standing)
        _write(self.declaration, declared.as_json())

    def stand(self, standing: ExperimentStanding) -> None:
        """Write its state."""
        document = asdict(standing)
        del document["looked"]
        _write(self.standing, document)

    def find(self, document: dict[str, Any]) -> None:
        """Write the findings."""
        _write(self.findings, document)

    def found(self) -> dict[str, Any] | None:
        """The findings so far; None if there are none, or they cannot be read."""
        try:
            found = kept_json(self.findings)
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def goals_seen(self) -> tuple[tuple[GoalSeen, ...], int]:
        """The finding for each goal, and the number of pairs; nothing if they cannot be read."""
        try:
            found = self.found() or {"goals": (), "pairs": 0}
            return tuple(goal_of(each) for each in found["goals"]), int(found["pairs"])
        except UNREADABLE:
            return (), 0

    def put_away(self, number: int) -> None:
        """Rename the files of an experiment that is over; the configuration then counts again."""
        # the declaration first: without it the others do not count
        for path in (self.declaration, self.standing, self.look, self.journal, self.findings):
            with _reported(path), suppress(FileNotFoundError):
                path.rename(beside(path, str(number)))

    def note(self, entry: InForce) -> None:
        """Add a line to the journal; a disk that is full costs a line and no cycle."""
        try:
            opened = own_file(self.journal, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            with os.fdopen(opened, "a+b", buffering=0) as file:
                append_whole(file, f"{json.dumps(asdict(entry))}\n".encode())
        except OSError as error:
            logger.warning("experiment=unjournaled path=%s error=%s", self.journal, error)

    def journaled(self) -> Iterator[InForce]:
        """Lines of the journal; one that was cut short is left out."""
        with suppress(FileNotFoundError):
            opened = own_file(self.journal, owners=owner_of_folder(self.journal))
            with os.fdopen(opened, "rb") as file:
                yield from (entry for line in file if (entry := _entry(line)) is not None)


def _write(path: Path, document: object) -> None:
    with _reported(path):
        write_whole(path, json.dumps(document, indent=1) + "\n", mode=PRIVATE)


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written ({error.strerror}): do it as the daemon's user, or as root."
        ) from None


def goal_of(found: Mapping[str, Any]) -> GoalSeen:
    """A finding of a JSON document, in which null is a figure that is not known."""
    seen: GoalSeen = typed(GoalSeen, {each.name: found[each.name] for each in fields(GoalSeen)})
    return seen if seen.word in EXPERIMENT_WORDS else replace(seen, word=INCONCLUSIVE)


def _entry(line: bytes) -> InForce | None:
    """A line of the journal; None where it is none."""
    try:
        found: InForce = typed(InForce, json.loads(line))
    except UNREADABLE:
        return None
    return None if math.isnan(found.time) else found


#: Part of a day after which an unwatched experiment is left to the site, and at least seconds.
_UNWATCHED, _AT_LEAST = 1.0 / 24.0, 60.0
#: Part of a day after which the journal repeats what is in force.
_STILL = 1.0 / 144.0


@dataclass(frozen=True, slots=True)
class Turn:
    """What a cycle must do."""

    arm: str = ""  #: of the block, one of ARMS; "" without an experiment
    left_to_site: bool = False  #: nothing is written, and outstanding writes are restored
    why: str = ""  #: why it is not the declared turn; "" for no reason
    candidate: str = ""  #: as [policy] model would name it; "" for the configured model
    model_sha256: str = ""  #: of the candidate


@dataclass(slots=True, kw_only=True)
class ExperimentTurns:
    """Decides whose turn it is, and notes in the journal what was in force."""

    files: ExperimentFiles
    _declared: Declaration | None = None
    _standing: ExperimentStanding | None = None
    _fault: str = ""
    _is_challenged: bool = False
    _noted: InForce | None = None
    _last_turn: Turn = field(default_factory=Turn)

    def turn(self, now: float, policy: str, model_sha256: str) -> Turn:
        """Whose turn it is."""
        self._read()
        found = self._turn(now, policy, model_sha256)
        if found != self._last_turn:
            logger.info(
                "experiment=%s left_to_site=%s%s",
                found.arm or "none",
                "yes" if found.left_to_site else "no",
                f" reason={found.why}" if found.why else "",
            )
        self._last_turn = found
        return found

    def note(self, turn: Turn, mode: str, now: float, misdelivered: float | None = None) -> None:
        """Remember what was in force, where that has changed or a while has passed."""
        if self._declared is None or mode == "standby":  # the daemon that acts writes
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
        """The experiment for the report of a cycle."""
        if turn == Turn():
            return ExperimentReport()
        goals, pairs = self.files.goals_seen()
        given = turn.arm != SITE if turn.left_to_site else bool(turn.why)
        return ExperimentReport(
            phase="left_to_site" if given else turn.arm,
            state=self._standing.state if self._standing is not None else "",
            goals=goals,
            pairs=pairs,
        )

    def _read(self) -> None:
        self._declared, self._standing, self._fault = None, None, ""
        try:
            self._declared = self.files.declared()
            self._is_challenged = self._declared is not None and bool(self._declared.candidate)
            if self._declared is not None:
                self._standing = self.files.stands()
        except (OSError, ValueError) as error:
            self._fault = f"the files of the experiment cannot be read ({error})"

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
        return "it is not watched: start slurm-rl-experiment.service"
    return ""


def _is_watched(declared: Declaration, standing: ExperimentStanding, now: float) -> bool:
    """Whether the last look is recent, also after the clock was set back."""
    silence = max(_UNWATCHED * declared.day, _AT_LEAST)
    return abs(now - max(standing.looked, declared.begin)) <= silence


def held_part(
    declared: Declaration, journal: list[InForce], blocks: int, last: int | None = None
) -> float:
    """Part of the counted time of blocks in which the order was in force whose turn it was.

    The lesser of both orders' parts; 1 without blocks. The site's order is not in force while a job
    carries a factor, for which the journal has "failed". Only the last `last` blocks that are over
    count; None for all.
    """
    first = 0 if last is None else max(blocks - last, 0)
    over = declared.blocks[first:blocks]
    return min(_held(declared, journal, over, arm) for arm in ARMS)


def misdelivered_since_begin(journal: Sequence[InForce]) -> float:
    """Part of the last fortnight's service that went to the wrong account.

    0 if it is not known, or no larger than it was when the experiment began: the experiment did not
    cause that.
    """
    known = [each.misdelivered for each in journal if each.misdelivered is not None]
    return known[-1] if known and known[-1] > known[0] else 0.0


def _in_force(declared: Declaration, entry: InForce, arm: str) -> bool:
    if entry.arm != arm:
        return False
    if declared.candidate:  # a model each, and no other in its place
        return entry.mode == "active" and not entry.why
    return entry.mode == ("active" if arm == OURS else "shadow")


def _held(
    declared: Declaration, journal: list[InForce], blocks: Sequence[TurnBlock], arm: str
) -> float:
    longest = 2.5 * _STILL * declared.day  # a daemon that has ended writes nothing
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
