"""The utility and price functions of 2002 (section 5), and the variables that formulas may name."""

from __future__ import annotations

from collections.abc import Mapping

from slurm_rl_plugin.brokers.market.formula import Formula, parse_formula

#: What a user's function may name. Times in seconds from the request on; a later start is larger.
#: JobCost is the price that the owner's function gives, SiteUtility what the site expects of such
#: a job in [0, 1], SiteProcessors how many it has in all.
USER_VARIABLES = (
    "StartTime",
    "EndTime",
    "RunTime",
    "NumberOfProcessors",
    "JobCost",
    "SiteUtility",
    "SiteProcessors",
)
#: What an owner's function may name (Fig. 9). Areas in processor-seconds: `under` idle on the
#: job's processors before it, `over` after it, `left_right` idle on the machine's other processors
#: while it runs; `left_right_rel` is `left_right` over the job's own area; `utilization` that of
#: the machine from now to the end of its schedule.
MACHINE_VARIABLES = (
    "NumberOfProcessors",
    "RunTime",
    "over",
    "under",
    "left_right",
    "left_right_rel",
    "utilization",
)

_AREA = "NumberOfProcessors * RunTime"
_RELATIVE = "(1 - left_right_rel)"


def user_function(text: str) -> Formula:
    """A user's utility function; more is better.

    Raises:
        FormulaError: refused.
    """
    return parse_formula(text, USER_VARIABLES)


def machine_function(text: str) -> Formula:
    """Parse an owner's price function, which may use MACHINE_VARIABLES.

    Raises:
        FormulaError: refused.
    """
    return parse_formula(text, MACHINE_VARIABLES)


#: Section 5.1.
MACHINE_FUNCTIONS: Mapping[str, Formula] = {
    name: machine_function(text)
    for name, text in {
        "MF1": f"({_AREA} + over + under + left_right) * {_RELATIVE}",
        "MF2": f"{_AREA} + over + under + left_right",
        "MF3": f"({_AREA} + over + under) * {_RELATIVE}",
        "MF4": f"({_AREA} + left_right) * {_RELATIVE}",
        "MF5": f"({_AREA} + over + left_right) * {_RELATIVE}",
        "MF6": f"({_AREA} + under + left_right) * {_RELATIVE}",
    }.items()
}
#: Section 5.2.
USER_FUNCTIONS: Mapping[str, Formula] = {
    name: user_function(text)
    for name, text in {
        "UF1": "-StartTime",
        "UF2": "-JobCost",
        "UF3": "-(StartTime + JobCost)",
        "UF4": "-(StartTime + 2 * JobCost)",
        "UF5": "-(2 * StartTime + JobCost)",
    }.items()
}
