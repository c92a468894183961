"""What schedulers and queues say that keeps scores out of force, beside the server itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from slurm_rl_plugin.batch_systems.pbs.answers.fields import SCORE
from slurm_rl_plugin.batch_systems.pbs.answers.nodes import QSTAT_QUEUES
from slurm_rl_plugin.batch_systems.pbs.answers.schedulers import harm_of, read_schedulers
from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands, section

#: While nothing is wrong two calls a minute are enough for what only an administrator changes.
SECONDS_BETWEEN_LOOKS = 60.0


class SortSettings:
    """Asks schedulers and queues; once a minute while nothing is wrong, else each time.

    Args:
        commands: of PBS.
        clock: seconds since the epoch.
    """

    def __init__(self, commands: PbsCommands, clock: Callable[[], float]) -> None:
        self._commands = commands
        self._clock = clock
        #: When nothing was wrong, and beside which formula.
        self._sound = (-math.inf, "")

    def harm(self, ours: str) -> str | None:
        """Why a score would do nothing, or worse; None where it works.

        Args:
            ours: the server's formula.

        Raises:
            BatchSystemUnavailable: no answer in time.
            BatchSystemError: an answer that cannot be understood.
        """
        now = self._clock()
        then, formula = self._sound
        if formula == ours and 0.0 <= now - then < SECONDS_BETWEEN_LOOKS:
            return None
        queues = section(self._commands.read_json(QSTAT_QUEUES), "Queue")
        harm = harm_of(read_schedulers(self._commands.read), ours) or _queue_default(queues)
        self._sound = (now, ours) if harm is None else (-math.inf, "")
        return harm


def _queue_default(queues: Mapping[str, Mapping[str, Any]]) -> str | None:
    """A score that is taken away would come back: PBS gives a queue's default first."""
    for name, queue in queues.items():
        defaults = queue.get("resources_default")
        if isinstance(defaults, dict) and SCORE in defaults:
            return (
                f"queue {name} has resources_default.{SCORE}, so none could be taken away: "
                f"qmgr -c 'unset queue {name} resources_default.{SCORE}'"
            )
    return None
