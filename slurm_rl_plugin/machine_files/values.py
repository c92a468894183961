"""Values of a configuration that know where they stand: numbers, spans of time, yes and no."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from slurm_rl_plugin.accounting.slurm.durations import asked_seconds
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.hostlists import expand
from slurm_rl_plugin.units import MINUTE

UNLIMITED = frozenset({"unlimited", "infinite", "-1"})
#: What commands print for a key that nobody has set.
NOTHING = frozenset({"", "(null)", "none", "n/a"})
#: Letters of a value that a sentence shows.
_LONGEST_SHOWN = 200
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_TRUTH = {"yes": True, "up": True, "true": True, "1": True}
_TRUTH |= {"no": False, "down": False, "false": False, "0": False}
#: Of 1,024, as Slurm takes them after a count.
_SUFFIXES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4, "p": 1024**5}


@dataclass(frozen=True, slots=True)
class Value:
    """What one key is set to.

    Attributes:
        place: file and line, or the command that told it.
        key: as it is written there.
        text: without quotes.
    """

    place: str
    key: str
    text: str

    @property
    def said(self) -> str:
        """Where it stands and what, for a sentence; of a long text its beginning."""
        shown = (
            self.text if len(self.text) <= _LONGEST_SHOWN else f"{self.text[:_LONGEST_SHOWN]}..."
        )
        return f"{self.place}: {self.key}={shown}"

    @property
    def words(self) -> tuple[str, ...]:
        """What its commas part."""
        return tuple(word for each in self.text.split(",") if (word := each.strip()))

    def fault(self, problem: str) -> ConfigurationError:
        """Return the error that blames it, for the caller to raise; `problem` says the mend."""
        return ConfigurationError(f"{self.said}: {problem}")

    def number(self) -> int:
        """A whole number.

        Raises:
            ConfigurationError: it is none.
        """
        if _NUMBER.fullmatch(self.text) is None:
            raise self.fault("this is no whole number; write one, 0 or more")
        return int(self.text)

    def bound(self) -> float:
        """A whole number, or inf for a word of UNLIMITED.

        Raises:
            ConfigurationError: neither.
        """
        return math.inf if self.text.lower() in UNLIMITED else float(self.number())

    def seconds(self) -> float:
        """A span of time, of minutes where nothing else is said, rounded up to whole minutes.

        Raises:
            ConfigurationError: it is none.
        """
        if self.text.lower() in UNLIMITED:
            return math.inf
        try:
            return MINUTE * math.ceil(asked_seconds(self.text) / MINUTE)
        except ValueError:
            raise self.fault(
                "this is no span of time; write minutes, hours:minutes:seconds, "
                "days-hours:minutes:seconds or UNLIMITED"
            ) from None

    def truth(self) -> bool:
        """Yes or no.

        Raises:
            ConfigurationError: neither.
        """
        try:
            return _TRUTH[self.text.lower()]
        except KeyError:
            raise self.fault("write YES or NO") from None

    def names(self) -> list[str]:
        """Names of a hostlist.

        Raises:
            ConfigurationError: it is none.
        """
        try:
            return expand(self.text)
        except ValueError as error:
            raise self.fault(f"{error}; write such as n[001-087,100]") from None


def counted(text: str) -> float | None:
    """A count with or without a suffix, such as 4 or 2K; None for anything else."""
    found = re.fullmatch(r"(\d{1,18})([kKmMgGtTpP]?)", text, re.ASCII)
    return float(int(found[1]) * _SUFFIXES[found[2].lower()]) if found else None
