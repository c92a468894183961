"""Classes of service, each with its time-utility function as a row of numbers (2008, eq. 1-3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import HOUR, MINUTE

#: Constants of eq. 1-3 (2008, section V.A): decay of interactive jobs per minute past the deadline,
#: exponent of the decay of batch jobs, start-up allowance in seconds.
ALPHA_PER_MINUTE = 0.5
BETA = 0.3
SIGMA = 60.0
#: Places of a row: decay per second, exponent, allowance in seconds, and how many run times belong
#: to the deadline. Behind them each segment of lateness: from, seconds that it lasts, utility lost.
ALPHA_ROW, BETA_ROW, SIGMA_ROW, RUN_ROW, SEGMENTS = range(5)
SEGMENT = 3
#: Seconds in which a utility falls where it has a step.
_STEP = 1e-3
#: Form -> the keys that it alone has.
_FORMS = {
    "exponential": ("alpha",),
    "power": ("beta",),
    "deadline": ("hours",),
    "piecewise": ("points",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UtilityClass:
    """The utility of a job of one class by its turnaround; 1 until its deadline, never rising.

    The deadline is the run time and `sigma`, that is, a job in time starts within `sigma`.

    Raises:
        ConfigurationError: an unknown form, a key of another form, or a value out of bounds.
    """

    form: str = ""  #: "exponential" (eq. 2), "power" (eq. 3), "deadline" (0 after) or "piecewise"
    alpha: float | None = None  #: decay per minute past the deadline, of the exponential form
    beta: float | None = None  #: exponent of the power law
    sigma: float = SIGMA  #: start-up allowance, seconds
    hours: float | None = None  #: until the end, for run time and sigma, of the deadline form
    #: [hours past the deadline, utility] of the piecewise form, linear between them.
    points: tuple[tuple[float, float], ...] = ()
    interactive: bool = False  #: whether wait targets, goals and the reserve hold for its jobs
    users: bool = False  #: whether users may choose the class for their jobs

    def __post_init__(self) -> None:
        if not isinstance(self.form, str) or self.form not in _FORMS:
            raise ConfigurationError(f"form is {self.form!r}: give one of {', '.join(_FORMS)}.")
        given = self.table
        for form, keys in _FORMS.items():
            for key in keys:
                if key in given and form != self.form:
                    raise ConfigurationError(f"{key} belongs to form {form}, not to {self.form}.")
        for key in ("alpha", "beta", "sigma", "hours"):
            if key in given and not _is_number(given[key], above=0.0):
                raise ConfigurationError(f"{key} is {given[key]!r}: give a number above 0.")
        for key in ("interactive", "users"):
            if not isinstance(value := getattr(self, key), bool):
                raise ConfigurationError(f"{key} is {value!r}: give true or false.")
        if self.form == "piecewise" and not _falls(self.points):
            raise ConfigurationError(
                f"points is {self.points!r}: give [hours, utility] pairs, hours rising from 0, "
                "utility falling from 1 to 0."
            )

    @property
    def table(self) -> dict[str, object]:
        """The keys of its [utility.NAME] that are not the default."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}

    @property
    def row(self) -> tuple[float, ...]:
        """The numbers that `time_utility` computes with."""
        alpha = ALPHA_PER_MINUTE if self.alpha is None else self.alpha
        beta = BETA if self.beta is None else self.beta
        row = [
            alpha / MINUTE if self.form == "exponential" else 0.0,
            beta if self.form == "power" else 0.0,
            self.sigma if self.hours is None else self.hours * HOUR,
            1.0 if self.hours is None else 0.0,
        ]
        points = ((0.0, 0.0),) if self.form == "deadline" else self.points
        begin, utility = 0.0, 1.0
        for hours, level in points:
            row += [begin * HOUR, max((hours - begin) * HOUR, _STEP), utility - level]
            begin, utility = hours, level
        return tuple(row)


def _is_number(value: object, *, above: float) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and above < float(str(value)) < math.inf


def _falls(points: object) -> bool:
    """Whether points are pairs of numbers whose hours rise and whose utilities fall."""
    before = (-1.0, 1.0)
    for each in points if isinstance(points, list | tuple) else ():
        if not isinstance(each, list | tuple) or len(each) != 2:
            return False
        if not all(_is_number(number, above=-1.0) and number >= 0.0 for number in each):
            return False
        if each[0] <= before[0] or each[1] > before[1]:
            return False
        before = (each[0], each[1])
    return before[0] >= 0.0


#: The two classes of the paper; every site has them.
BATCH, INTERACTIVE = "batch", "interactive"
BUILT_IN: Mapping[str, UtilityClass] = {
    BATCH: UtilityClass(form="power"),
    INTERACTIVE: UtilityClass(form="exponential", interactive=True),
}
