"""The utility and price functions of 2002 (section 5), and the variables that formulas may name.

The market of the simulator, `[offer] price` and the formulas of `slurm-rl route` read them by the
same two functions: there is one table of variables.
"""

from __future__ import annotations

from collections.abc import Mapping

from slurm_rl_plugin.brokers.market.formula import Formula, parse_formula

#: What a user's function may name. Times in seconds from the request on; a later start is larger.
#: JobCost is the price that the owner's function gives, SiteUtility what the site expects of such
#: a job in [0, 1] (0 in the simulated market), SiteProcessors how many it has in all, Interactive 1
#: for a job of the interactive class, else 0.
USER_VARIABLES = (
    "StartTime",
    "EndTime",
    "RunTime",
    "NumberOfProcessors",
    "JobCost",
    "SiteUtility",
    "SiteProcessors",
    "Interactive",
)
#: What an owner's function may name of the schedule (Fig. 9). Areas in processor-seconds: `under`
#: idle on the job's processors before it, `over` after it, `left_right` idle on the machine's other
#: processors while it runs; `left_right_rel` is `left_right` over the job's own area; `utilization`
#: that of the machine from now to the end of its schedule.
SCHEDULE_VARIABLES = ("over", "under", "left_right", "left_right_rel", "utilization")
#: What an owner's function may name: the job, the schedule, and when the job would start.
MACHINE_VARIABLES = (
    "NumberOfProcessors",
    "RunTime",
    *SCHEDULE_VARIABLES,
    "StartTime",
    "EndTime",
    "SiteProcessors",
    "Interactive",
)
#: Name in configurations of 0.1.0 -> variable.
FORMER_NAMES: Mapping[str, str] = {
    "processors": "NumberOfProcessors",
    "run_time": "RunTime",
    "wait": "StartTime",
    "interactive": "Interactive",
    "all_processors": "SiteProcessors",
    "price": "JobCost",
    "utility": "SiteUtility",
}

_AREA = "NumberOfProcessors * RunTime"
_RELATIVE = "(1 - left_right_rel)"
#: Section 5.1.
_MACHINE_TEXTS: Mapping[str, str] = {
    "MF1": f"({_AREA} + over + under + left_right) * {_RELATIVE}",
    "MF2": f"{_AREA} + over + under + left_right",
    "MF3": f"({_AREA} + over + under) * {_RELATIVE}",
    "MF4": f"({_AREA} + left_right) * {_RELATIVE}",
    "MF5": f"({_AREA} + over + left_right) * {_RELATIVE}",
    "MF6": f"({_AREA} + under + left_right) * {_RELATIVE}",
}
#: Section 5.2.
_USER_TEXTS: Mapping[str, str] = {
    "UF1": "-StartTime",
    "UF2": "-JobCost",
    "UF3": "-(StartTime + JobCost)",
    "UF4": "-(StartTime + 2 * JobCost)",
    "UF5": "-(2 * StartTime + JobCost)",
}


def user_function(text: str) -> Formula:
    """A user's utility function over USER_VARIABLES, or one of the paper's by its name.

    More is better.

    Raises:
        FormulaError: refused.
    """
    return parse_formula(_USER_TEXTS.get(text.strip(), text), USER_VARIABLES, FORMER_NAMES)


def machine_function(text: str) -> Formula:
    """An owner's price function over MACHINE_VARIABLES, or one of the paper's by its name.

    Raises:
        FormulaError: refused.
    """
    return parse_formula(_MACHINE_TEXTS.get(text.strip(), text), MACHINE_VARIABLES, FORMER_NAMES)


MACHINE_FUNCTIONS: Mapping[str, Formula] = {name: machine_function(name) for name in _MACHINE_TEXTS}
USER_FUNCTIONS: Mapping[str, Formula] = {name: user_function(name) for name in _USER_TEXTS}
