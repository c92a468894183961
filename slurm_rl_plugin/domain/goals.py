"""What a site wants of its queue: the weight of each goal relative to a model's training."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.units import FloatArray

#: Points that a doubling of usage over share counts where no goal says.
POINTS_A_DOUBLING = 16.0
#: Shares that differ by less are all equal.
_ALIKE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Goals:
    """How much each thing counts, >= 0; points are those of a linear model's score."""

    #: Points that a job loses for each doubling of what its account has used over its share, and
    #: gains for each halving; 0 for none. None is POINTS_A_DOUBLING where shares are configured,
    #: see `resolved`.
    shares: float | None = None
    short_jobs: float = 1.0  #: how much the predicted run time counts; 1 as trained, 0 not
    wide_jobs: float = 1.0  #: the same of the size of a job, which lifts wide ones
    longest_wait: float = 1.0  #: the same of a wait beyond half of the site's longest
    interactive: float = 0.0  #: points that a job of the interactive class gains

    @property
    def points_a_doubling(self) -> float:
        """Points of `shares`; none if not set."""
        return 0.0 if self.shares is None else self.shares

    def resolved(self, shares: FloatArray) -> Goals:
        """The same where it is known whether the site has configured shares.

        Equal shares are what a batch system gives to accounts without configured shares: they count
        where a goal says so.
        """
        if self.shares is not None:
            return self
        told = len(shares) > 1 and float(np.ptp(shares)) > _ALIKE
        return replace(self, shares=POINTS_A_DOUBLING if told else 0.0)


#: As a model was trained, on a site without configured shares.
AS_TRAINED = Goals()
