"""Whether the candidate of a turn can be used, and that it acts in its turns alone."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle.rival import Rival
from slurm_rl_plugin.hook.experiment.turns import Turn

logger = logging.getLogger(__name__)

#: Seconds after which a candidate that could not be used is tried again: a file may be there later.
_REFUSED_FOR = 60.0


class Refused(NamedTuple):
    """A candidate that could not be used.

    Attributes:
        key: its name, and the checksum that was declared.
        at: when it was tried, by the monotonic clock, seconds.
    """

    key: tuple[str, str] = ("", "")
    at: float = -math.inf


def _no_rival(model: str) -> Rival | None:
    """Where no candidate can be loaded, each turn is of the model in service."""
    del model
    return None


def _untold(rival: Rival | None) -> None:
    """Nobody listens to which model is in force."""
    del rival


@dataclass(slots=True, kw_only=True)
class CandidateTurns:
    """Brings the candidate of a turn into a cycle, and out of it.

    Attributes:
        rival_of: loads a candidate, as [policy] model would name it; None where it cannot be used.
        in_force: told of the candidate that acts from now on, or None for the model in service.
        monotonic: clock, seconds.
    """

    rival_of: Callable[[str], Rival | None] = _no_rival
    in_force: Callable[[Rival | None], None] = _untold
    monotonic: Callable[[], float] = time.monotonic
    _refused: Refused = Refused()  # noqa: RUF009 - it never changes

    def carry_out(self, cycle: Cycle, turn: Turn) -> Turn:
        """The turn with its model in force; another turn where the candidate cannot be used."""
        acted = cycle.rival is not None and cycle.rival.acts
        rival = self._rival(cycle, turn)
        cycle.take_turns(candidate=rival is not None and turn.is_candidates)
        acts = rival is not None and rival.acts
        if acted != acts:
            self.in_force(rival if acts else None)
        if turn.is_candidates and rival is None:
            return Turn(turn.arm, why="the candidate cannot be used")
        return turn

    def _rival(self, cycle: Cycle, turn: Turn) -> Rival | None:
        """The candidate of a turn, which is invited where it is new; any other is dismissed."""
        wanted, present = (turn.candidate, turn.model_sha256), cycle.rival
        if present is not None and present.key == wanted:
            return present
        if present is not None:
            cycle.dismiss()
        rests = self._refused.key == wanted and self.monotonic() < self._refused.at + _REFUSED_FOR
        if not turn.candidate or rests:
            return None
        found = self.rival_of(turn.candidate)
        if found is not None and found.key != wanted:
            logger.error(
                "experiment=refused reason=another file than was declared: %s", turn.candidate
            )
            found = None
        if found is None:
            self._refused = Refused(wanted, self.monotonic())
            return None
        cycle.invite(found)
        return found
