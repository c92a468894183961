"""Every study by name: a new one is its folder, and a function and a line here.

Each is imported when it is run, so that who only asks for the names needs no library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_rl_plugin.papers.study.study import Study


def _reactive_grids() -> Study:
    from slurm_rl_plugin.papers.reactive_grids_2008 import study  # noqa: PLC0415

    return study


def _non_markovian() -> Study:
    from slurm_rl_plugin.papers.non_markovian_2011 import study  # noqa: PLC0415

    return study


def _responsive_reserve() -> Study:
    from slurm_rl_plugin.papers.responsive_reserve import study  # noqa: PLC0415

    return study


def _heldout() -> Study:
    from slurm_rl_plugin.papers.heldout import study  # noqa: PLC0415

    return study


def _ablation() -> Study:
    from slurm_rl_plugin.papers.heldout import ablation_study  # noqa: PLC0415

    return ablation_study


def _economic() -> Study:
    from slurm_rl_plugin.papers.economic_2002 import study  # noqa: PLC0415

    return study


def _learning_agents() -> Study:
    from slurm_rl_plugin.papers.learning_agents_2005 import study  # noqa: PLC0415

    return study


def _site_utilities() -> Study:
    from slurm_rl_plugin.papers.site_utilities_2008 import study  # noqa: PLC0415

    return study


def _heuristics() -> Study:
    from slurm_rl_plugin.papers.heuristics import study  # noqa: PLC0415

    return study


def _rlscheduler() -> Study:
    from slurm_rl_plugin.papers.rlscheduler_2020 import study  # noqa: PLC0415

    return study


def _backfilling_predictions() -> Study:
    from slurm_rl_plugin.papers.backfilling_predictions_2015 import study  # noqa: PLC0415

    return study


def _start_times() -> Study:
    from slurm_rl_plugin.papers.start_times_2023 import study  # noqa: PLC0415

    return study


def _replayed_starts() -> Study:
    from slurm_rl_plugin.papers.replayed_starts import study  # noqa: PLC0415

    return study


def _switchback() -> Study:
    from slurm_rl_plugin.papers.switchback import study  # noqa: PLC0415

    return study


@dataclass(frozen=True, slots=True)
class Entry:
    """A study, and what must be known of it before it is imported.

    Attributes:
        load: imports it.
        seeds: how many it runs where nobody says.
        keeps: whether it takes --models, --policy and --quick, or refuses them itself.
        searches: whether it takes --search.
    """

    load: Callable[[], Study]
    seeds: int = 30
    keeps: bool = True
    searches: bool = False


#: Name -> study, as the command line lists them.
STUDIES: Mapping[str, Entry] = {
    "reactive-grids": Entry(_reactive_grids),
    "non-markovian": Entry(_non_markovian),
    "responsive-reserve": Entry(_responsive_reserve),
    "heldout": Entry(_heldout, seeds=5),
    "ablation": Entry(_ablation, seeds=5),
    "economic": Entry(_economic),
    "learning-agents": Entry(_learning_agents),
    "site-utilities": Entry(_site_utilities),
    "heuristics": Entry(_heuristics, seeds=100, keeps=False),
    "rlscheduler": Entry(_rlscheduler, seeds=5, keeps=False, searches=True),
    "backfilling-predictions": Entry(_backfilling_predictions),
    "start-times": Entry(_start_times),
    "replayed-starts": Entry(_replayed_starts),
    "switchback": Entry(_switchback, seeds=200),
}
