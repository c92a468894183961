"""Every study by name; a new one is a folder and a line here.

A study is imported when it runs, so listing the names needs no library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from slurm_rl_plugin.papers.study.study import Study


@dataclass(frozen=True, slots=True)
class Entry:
    """A study, and what the command line needs before it is imported."""

    module: str  #: its module below `papers`, which has `run`
    seeds: int = 30  #: default of --seeds
    keeps: bool = True  #: whether --models and --quick are passed to it

    def load(self) -> Study:
        """Import the study."""
        return cast("Study", import_module(f"{__package__}.{self.module}"))


#: Name -> study, in the order of the command line.
STUDIES: Mapping[str, Entry] = {
    "reactive-grids": Entry("reactive_grids_2008.study"),
    "non-markovian": Entry("non_markovian_2011.experiment"),
    "responsive-reserve": Entry("responsive_reserve.experiment"),
    "heldout": Entry("heldout.experiment", seeds=5),
    "ablation": Entry("heldout.ablation", seeds=5),
    "economic": Entry("economic_2002.study"),
    "learning-agents": Entry("learning_agents_2005.experiment"),
    "site-utilities": Entry("site_utilities_2008.experiment"),
    "heuristics": Entry("heuristics.experiment", seeds=100, keeps=False),
    "rlscheduler": Entry("rlscheduler_2020.study", keeps=False),
    "backfilling-predictions": Entry("backfilling_predictions_2015.experiment"),
    "start-times": Entry("start_times_2023.experiment"),
    "replayed-starts": Entry("replayed_starts.experiment"),
    "switchback": Entry("switchback.study", seeds=200),
}
