"""A fault as a value: what it does to a running site, how its cause ends, and what must show it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.bench.faults.scene import Scene

#: Metrics as scraped: series -> value; None where nobody answers the scrape.
Scrape = dict[str, float] | None
#: The program of a daemon whose policy wants another order in each cycle, so that it always writes.
RESTLESS = "tests.real.restless_hook"
#: The daemon as it is shipped.
SHIPPED = "slurm_rl_plugin.cli.entry"


@dataclass(frozen=True, slots=True)
class Sign:
    """What of our metrics shows a fault.

    Attributes:
        series: its name and labels as served; "" where the scrape itself must fail.
        value: that it must take; None where it must rise.
        labels: text that one of its label sets must hold.
        stays: it has the value before as well, and keeps it: the fault changes nothing.
    """

    series: str
    value: float | None = None
    labels: str = ""
    stays: bool = False

    def shows(self, before: Scrape, now: Scrape) -> bool:
        """Whether it does, by a scrape before the fault and one now."""
        if not self.series:
            return now is None
        if now is None:
            return False
        if self.labels:
            return any(self.series in each and self.labels in each for each in now)
        if self.series not in now:
            return False
        if self.value is not None:
            had = (before or {}).get(self.series) == self.value
            return now[self.series] == self.value and had == self.stays
        return now[self.series] > (before or {}).get(self.series, 0.0)

    @property
    def words(self) -> str:
        """For the table."""
        if not self.series:
            return "no answer to the scrape"
        if self.labels:
            return f"`{self.series}` has another `{self.labels.partition('=')[0]}`"
        if self.value is None:
            return f"`{self.series}` rises"
        return f"`{self.series}` {'stays' if self.stays else 'is'} {self.value:g}"


UNREACHABLE = Sign('slurm_rl_cycle_failures_total{reason="batch_system"}')
UNWRITABLE = Sign('slurm_rl_cycle_failures_total{reason="write"}')
FALLS_BACK = Sign("slurm_rl_fallback_active", 1.0)


def _nothing(scene: Scene) -> None:
    del scene


def _no_place(scene: Scene) -> AbstractContextManager[None]:
    del scene
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        name: short, as in the table; also the name of its folder with dashes.
        begin: does it to the running site.
        end: takes its cause away.
        sign: the metric that must show it.
        log: text that a line of the daemon's log must hold.
        place: what must be there before the daemon starts, such as a small disk for its files.
        program: of the daemon.
        model: of the daemon; a rule, or a file that the place makes.
        more: lines of its configuration.
        after_save: it kills slurmctld, which forgets what it has not saved yet: wait until it has.
        forgets_jobs: Slurm itself drops its jobs; those that come later count.
        reruns_jobs: Slurm itself may run a job again.
        counts_end: the recovery counts from the beginning of `end`, which waits for it itself.
        clock: the clock of the whole site can be set.
        patience: seconds after which the signs must have shown.
        slack: seconds that the recovery may take beyond one cycle, such as a call's time-out.
    """

    name: str
    begin: Callable[[Scene], None]
    end: Callable[[Scene], None] = _nothing
    sign: Sign
    log: str
    place: Callable[[Scene], AbstractContextManager[None]] = _no_place
    program: str = RESTLESS
    model: str = "sjf"
    more: str = ""
    after_save: bool = False
    forgets_jobs: bool = False
    reruns_jobs: bool = False
    counts_end: bool = False
    clock: bool = False
    patience: float = 60.0
    slack: float = 0.0

    @property
    def folder(self) -> str:
        """A name for files."""
        return "".join(each if each.isalnum() else "-" for each in self.name)
