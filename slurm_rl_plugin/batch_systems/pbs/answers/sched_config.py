"""What sched_config tells pbs_sched, of which root reads every line and others what they may."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.batch_systems.pbs.process import DEFAULT_HOME, PbsCommands
from slurm_rl_plugin.whole_file import read_whole

_LINE = re.compile(r"\s*(\w+)\s*:\s*(?:\"([^\"]*)\"?|'([^']*)'?|(\S+))\s*(\S*)")
_DIGITS = re.compile(r"\d{1,18}", re.ASCII)
SORT_KEY = "job_sort_key"
#: Of the periods into which `holidays` divides the week; a line without one is for both.
_PERIODS = {"prime": ("prime",), "non_prime": ("non_prime",), "none": ()}
_BOTH = ("prime", "non_prime")


@dataclass(frozen=True, slots=True)
class SchedConfig:
    """The values of one file, by name and period.

    Of two lines for the same the last counts, but of `job_sort_key` the first: it sorts before
    those that follow.

    Attributes:
        path: of the file.
        values: (name, `prime` or `non_prime`) -> value, without quotes.
    """

    path: Path
    values: dict[tuple[str, str], str]

    def always(self, name: str) -> bool:
        """Whether it is true in prime time and outside."""
        return all(self._is_true(name, period) for period in _BOTH)

    def ever(self, name: str) -> bool:
        """Whether it is true in one of them at least."""
        return any(self._is_true(name, period) for period in _BOTH)

    def text(self, name: str) -> str:
        """Its value in prime time, else outside; "" where it is not set."""
        return next((self.values[name, each] for each in _BOTH if (name, each) in self.values), "")

    def _is_true(self, name: str, period: str) -> bool:
        """As pbs_sched takes it: `no` is true as well as `yes`; `false` and a number of 0 are not.

        What is not set is false.
        """
        value = self.values.get((name, period), "").lower()
        number = _DIGITS.match(value)
        return int(number[0]) != 0 if number else value not in ("", "false")


def sched_folder(commands: PbsCommands) -> Path:
    """`sched_priv`, where the files of the standard scheduler lie; only root may enter it."""
    return Path(commands.conf.get("PBS_HOME", DEFAULT_HOME), "sched_priv")


def read_sched_config(path: Path) -> SchedConfig:
    """Read the file; lines of another form are passed over, as pbs_sched does.

    Raises:
        OSError: it cannot be read.
    """
    values: dict[tuple[str, str], str] = {}
    for line in read_whole(path).decode(errors="replace").replace("\\\n", " ").splitlines():
        found = None if line.lstrip().startswith("#") else _LINE.match(line)
        if found is not None:
            value = next((each for each in found.groups()[1:4] if each is not None), "")
            for period in _PERIODS.get(found[5].lower(), _BOTH):
                if found[1] != SORT_KEY or (SORT_KEY, period) not in values:
                    values[found[1], period] = value
    return SchedConfig(path, values)
