"""What a change did to the mean wait of one class or partition, and what was said before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.what_if.effects import FEW_SECONDS, SMALL
from tests.bench.node_hours.fidelity import agrees

#: What is asked of what was said.
VERDICTS = ("sign", "sign_beyond_chance", "sure_sign", "within", "near")


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectOnCell:
    """Mean wait after a change less that before, seconds.

    Attributes:
        jobs: that run in both.
        base: real mean wait before the change.
        real: effect on the real slurmctld.
        simulated: effect that what-if tells of the base's record.
        ci95: its interval; None where some draws have no such job.
        chance: the most that two real repetitions of the base differ by; None of one.
    """

    jobs: int
    base: float
    real: float
    simulated: float
    ci95: tuple[float, float] | None
    chance: float | None

    def verdicts(self) -> dict[str, bool | None]:
        """Whether it is told rightly; None where the question does not arise.

        `sign` counts an effect of 1 % of the wait, or a second, as none. `sign_beyond_chance` is
        asked where the real effect is more than chance, `sure_sign` where the interval leaves out
        none. `near` is within 15 % of the wait before, or a second.
        """
        ci95, least = self.ci95, max(SMALL * self.base, FEW_SECONDS)
        real, simulated = (
            int(np.sign(each)) if abs(each) > least else 0 for each in (self.real, self.simulated)
        )
        sure = ci95 is not None and (ci95[0] > 0.0 or ci95[1] < 0.0) and simulated != 0
        beyond = self.chance is not None and real != 0 and abs(self.real) > self.chance
        return {
            "sign": real == simulated,
            "sign_beyond_chance": real == simulated if beyond else None,
            "sure_sign": real == simulated if sure else None,
            "within": ci95[0] <= self.real <= ci95[1] if ci95 else None,
            "near": agrees(self.real, self.simulated, self.base),
        }
