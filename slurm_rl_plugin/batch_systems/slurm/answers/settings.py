"""What slurmctld says of itself: its settings by `scontrol`, and how busy it is by `sdiag`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from slurm_rl_plugin.accounting.slurm.resources import parse_licences
from slurm_rl_plugin.batch_systems.port import SchedulerLoad
from slurm_rl_plugin.batch_systems.slurm.answers.fields import parse_duration
from slurm_rl_plugin.batch_systems.slurm.process import not_understood
from slurm_rl_plugin.units import HOUR

SHOW_CONFIG = ("scontrol", "show", "config")
logger = logging.getLogger(__name__)

#: Seconds between the passes of Slurm's main and backfill schedulers where slurm.conf names none.
DEFAULT_PASSES = {"sched_interval": 60.0, "bf_interval": 30.0}
NOTHING = frozenset({"(null)", "none", "NONE", ""})
MULTIFACTOR, BASIC = "priority/multifactor", "priority/basic"
#: With these `priority/multifactor` orders jobs by submission alone, as `priority/basic` does.
_NO_WEIGHTS = (
    "PriorityWeightAge=0, PriorityWeightAssoc=0, PriorityWeightFairshare=0, "
    "PriorityWeightJobSize=0, PriorityWeightPartition=0 and PriorityWeightQOS=0"
)
#: Printed by `scontrol show config` and `scontrol ping` for each controller, the first in turn.
_CONTROLLER = re.compile(r"^Slurmctld\(\w+\) at (?P<host>\S+) is (?P<state>UP|DOWN)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """The parts of slurm.conf, as slurmctld has read it, that decide what our writes do."""

    release: str  #: such as 22.05.8
    priority_type: str  #: MULTIFACTOR or BASIC
    site_factor_plugin: str  #: "" where none is loaded
    age_weight: float  #: priority points of a job of the highest age
    highest_age: float  #: seconds after which age adds no more
    fairshare_weight: float  #: priority points of fair share at its highest
    size_weight: float  #: priority points of a job of the whole machine
    resource_weights: Mapping[str, float]  #: the same of each resource (PriorityWeightTRES)
    scheduler: Mapping[str, str]  #: SchedulerParameters, "" for a word without a value
    controllers: tuple[tuple[str, bool], ...]  #: host and whether it is up, in their order
    enforced: frozenset[str] = frozenset()  #: words of AccountingStorageEnforce
    counts_memory: bool = False  #: memory is given out as CPUs are (CR_*_Memory)
    counts_gres: bool = False  #: there are generic resources (GresTypes)
    tracked: frozenset[str] = frozenset()  #: what accounting counts (AccountingStorageTRES)
    licences: tuple[str, ...] = ()  #: names of the cluster's licences (Licenses)

    @property
    def release_number(self) -> tuple[int, int]:
        """Year and month of the release; 0 for what is not told."""
        year, month, *_ = (*release_numbers(self.release), 0, 0)
        return year, month

    @property
    def unlimited(self) -> str | None:
        """Why no limit of a QOS is enforced, one sentence with the mend; None where they are."""
        if "all" in self.enforced or {"limits", "qos"} <= self.enforced:
            return None
        words = ",".join(sorted(self.enforced | {"associations", "limits", "qos"}))
        return (
            "Slurm enforces no limits of a QOS: set AccountingStorageEnforce="
            f"{words} in slurm.conf and restart slurmctld"
        )

    @property
    def harm(self) -> str | None:
        """Why writing would do nothing or would be undone, one sentence; None where it works."""
        if self.priority_type == BASIC:
            return (
                f"PriorityType={BASIC} ignores SiteFactor: write PriorityType={MULTIFACTOR}, "
                f"{_NO_WEIGHTS} into slurm.conf and restart slurmctld; jobs without a factor then "
                "start in order of submission."
            )
        if self.priority_type != MULTIFACTOR:
            return (
                f"PriorityType={self.priority_type} is not known to use SiteFactor: set "
                f'PriorityType={MULTIFACTOR} in slurm.conf, or mode = "shadow".'
            )
        if self.site_factor_plugin:
            return (
                f"PrioritySiteFactorPlugin={self.site_factor_plugin} overwrites every factor: take "
                'it out of slurm.conf, or set mode = "shadow".'
            )
        return None

    def in_charge(self, host: str) -> bool | None:
        """Whether a daemon on this host has to act; None where that cannot be told.

        Beside a controller only the one in charge acts, so that two of them do not undo each
        other's order; on a host without a controller the daemon always acts. One of them gave
        this answer: where none is called up, its own ping was too slow.
        """
        if not self.names_controller(host):
            return True
        up = [_short(name) for name, is_up in self.controllers if is_up]
        return up[0] == _short(host) if up else None

    def names_controller(self, host: str) -> bool:
        """Whether slurm.conf names a controller of this host."""
        return _short(host) in [_short(name) for name, _ in self.controllers]

    @property
    def points_an_hour(self) -> float:
        """Priority points that an hour of waiting is worth; 0 where age does not count."""
        if self.priority_type != MULTIFACTOR or not self.highest_age > 0:
            return 0.0
        return self.age_weight / (self.highest_age / HOUR)

    @property
    def replaced_points(self) -> float:
        """Priority points of age, fair share, size and resources at their highest."""
        resources = sum(self.resource_weights.values())
        return self.age_weight + self.fairshare_weight + self.size_weight + resources

    @property
    def pass_interval(self) -> float:
        """Seconds between Slurm's own passes over the queue, the more frequent kind."""
        return min(self._interval(name) for name in DEFAULT_PASSES)

    def _interval(self, name: str) -> float:
        try:
            given = float(self.scheduler.get(name, ""))
        except ValueError:
            return DEFAULT_PASSES[name]
        return given if given > 0 else DEFAULT_PASSES[name]  # negative switches a scheduler off


def _short(host: str) -> str:
    return host.partition(".")[0]


def release_numbers(release: str) -> tuple[int, ...]:
    """The leading numbers of a release: 26.05.0-0rc1 gives (26, 5, 0); empty for none."""
    found = re.match(r"\d+(?:\.\d+)*", release)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def parse_settings(text: str) -> SlurmSettings:
    """Read the answer of SHOW_CONFIG."""
    lines = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            lines[key.strip()] = "" if value.strip() in NOTHING else value.strip()
    if "PriorityType" not in lines:
        raise not_understood("scontrol show config", "no line PriorityType")
    return SlurmSettings(
        release=lines.get("SLURM_VERSION", "unknown"),
        priority_type=lines["PriorityType"],
        site_factor_plugin=lines.get("PrioritySiteFactorPlugin", ""),
        age_weight=_number(int, lines.get("PriorityWeightAge", "0")),
        highest_age=_number(parse_duration, lines.get("PriorityMaxAge", "")),
        fairshare_weight=_number(int, lines.get("PriorityWeightFairShare", "0")),
        size_weight=_number(int, lines.get("PriorityWeightJobSize", "0")),
        resource_weights=_weights(lines.get("PriorityWeightTRES", "")),
        scheduler=_parameters(lines.get("SchedulerParameters", "")),
        controllers=tuple(_controllers(text)),
        enforced=frozenset(_enforced(lines.get("AccountingStorageEnforce", ""))),
        counts_memory="MEMORY" in lines.get("SelectTypeParameters", "").upper(),
        counts_gres=bool(lines.get("GresTypes")),
        tracked=frozenset(lines.get("AccountingStorageTRES", "").split(",")),
        licences=_licences(lines.get("Licenses", "")),
    )


def parse_cluster_name(text: str) -> str:
    """The cluster's name from the answer of SHOW_CONFIG."""
    found = re.search(r"^ClusterName\s*=\s*(\S+)", text, re.MULTILINE)
    if found is None:
        raise not_understood("scontrol show config", "no line ClusterName")
    return found[1]


def _licences(text: str) -> tuple[str, ...]:
    """Names of the resources, in order; none where the text is not understood."""
    try:
        return tuple(sorted(parse_licences(text)))
    except ValueError:
        logger.warning("setting=unknown value=%r", text)
        return ()


def _number(kind: Callable[[str], float], text: str) -> float:
    """A number that a cycle can do without: 0 where it is not understood."""
    try:
        return kind(text)
    except ValueError:
        logger.warning("setting=unknown value=%r", text)
        return 0.0


def _weights(text: str) -> dict[str, float]:
    """Resource -> points at its highest, of `CPU=1000,Mem=2000`."""
    pairs = (word.partition("=") for word in text.split(",") if word)
    return {name: _number(float, points) for name, _, points in pairs}


def _enforced(text: str) -> Iterator[str]:
    """Words of AccountingStorageEnforce; `safe` is stricter than `limits` and holds it."""
    for word in text.lower().split(","):
        if word.strip():
            yield word.strip()
        if word.strip() == "safe":
            yield "limits"


def _parameters(text: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in text.split(",") if word)
    return {key.strip().lower(): value for key, _, value in pairs}


def _controllers(text: str) -> Iterator[tuple[str, bool]]:
    for line in text.splitlines():
        if found := _CONTROLLER.match(line.strip()):
            yield found["host"], found["state"] == "UP"


SDIAG = ("sdiag",)
#: Of the 256 threads that slurmctld serves calls with; beyond, callers wait and time out.
BUSY_THREADS = 180
#: Messages to nodes that wait for their turn.
BUSY_AGENTS = 500
#: What happened to jobs since slurmctld counts; any of them changes the queue.
EVENTS = ("submitted", "started", "completed", "canceled", "failed")
_NUMBER = re.compile(r"^\s*(?P<name>[A-Za-z][A-Za-z ]*):\s+(?P<value>\d+)\s*$", re.MULTILINE)


def parse_load(text: str) -> SchedulerLoad:
    """Read the answer of SDIAG; slurmctld counts EVENTS anew from time to time."""
    found: dict[str, int] = {}
    for match in _NUMBER.finditer(text):
        found.setdefault(match["name"], int(match["value"]))
    try:
        threads, agents = found["Server thread count"], found["Agent queue size"]
        events = tuple(found[f"Jobs {event}"] for event in EVENTS)
        backlog = found["DBD Agent queue size"]
    except KeyError as error:
        raise not_understood("sdiag", f"no line {error.args[0]!r}") from error
    struggles = None
    if threads > BUSY_THREADS:
        struggles = f"slurmctld serves {threads} calls at once"
    elif agents > BUSY_AGENTS:
        struggles = f"{agents} messages to nodes wait"
    return SchedulerLoad(struggles=struggles, events=events, backlog=backlog, submitted=events[0])
