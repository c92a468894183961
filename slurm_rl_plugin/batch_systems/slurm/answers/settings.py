"""slurmctld's settings by `scontrol`, and its load by `sdiag`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from slurm_rl_plugin.accounting.slurm.resources import parse_licences
from slurm_rl_plugin.batch_systems.port import SchedulerFacts, SchedulerLoad
from slurm_rl_plugin.batch_systems.slurm.answers.fields import parse_duration
from slurm_rl_plugin.batch_systems.slurm.process import not_understood
from slurm_rl_plugin.machine_files.statements import Keys, Value
from slurm_rl_plugin.units import HOUR

SHOW_CONFIG = ("scontrol", "show", "config")
Parsed = TypeVar("Parsed")
logger = logging.getLogger(__name__)

#: Lines of `scontrol show config` that are state, not configuration.
_STATE = frozenset({"boot_time", "hash_val", "multiple_slurmd", "next_job_id"})
#: Seconds between the passes of Slurm's main and backfill schedulers, unless slurm.conf sets them.
_PASSES = {"sched_interval": 60.0, "bf_interval": 30.0}
_UNIT = re.compile(r"(\d+) (?:sec|min|percent|nodes/min)")
NOTHING = frozenset({"(null)", "none", "NONE", ""})
#: First and last release that the tests have run on.
TRIED = (22, 5), (26, 5)
MULTIFACTOR, BASIC = "priority/multifactor", "priority/basic"
#: With these `priority/multifactor` orders jobs by submission alone, as `priority/basic` does.
_NO_WEIGHTS = (
    "PriorityWeightAge=0, PriorityWeightAssoc=0, PriorityWeightFairshare=0, "
    "PriorityWeightJobSize=0, PriorityWeightPartition=0 and PriorityWeightQOS=0"
)
#: Printed by `scontrol show config` and `scontrol ping` for each controller, in their order.
_CONTROLLER = re.compile(r"^\s*Slurmctld\(\w+\) at (?P<host>\S+) is (?P<state>UP|DOWN)", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """The settings of slurm.conf, as slurmctld has read it, that decide what our writes do."""

    cluster: str  #: ClusterName
    priority_type: str  #: MULTIFACTOR or BASIC
    release: tuple[int, int]  #: year and month; 0 for an unknown one
    facts: SchedulerFacts
    #: Why limits of a QOS are not enforced, one sentence with the fix; None if they are.
    unlimited: str | None = None
    counts_memory: bool = False  #: jobs are allocated memory (CR_*_Memory)
    counts_gres: bool = False  #: there are generic resources (GresTypes)
    tracked: frozenset[str] = frozenset()  #: what accounting counts (AccountingStorageTRES)
    licences: tuple[str, ...] = ()  #: names of the cluster's licences (Licenses)


def _short(host: str) -> str:
    return host.partition(".")[0]


def release_numbers(release: str) -> tuple[int, ...]:
    """The leading numbers of a release, such as (26, 5, 0) of 26.05.0-0rc1."""
    found = re.match(r"\d+(?:\.\d+)*", release)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def parse_config(text: str) -> Keys:
    """Keys of slurm.conf as slurmctld has them, in lower case."""
    command = " ".join(SHOW_CONFIG)
    found = Keys()
    for line in text.splitlines():
        if not line.strip() and found:
            break  # other files and the controllers follow
        key, equals, text = line.partition("=")
        name, value = key.strip(), text.strip()
        if equals and name.lower() not in _STATE:
            bare = _UNIT.fullmatch(value)
            found[name.lower()] = Value(command, name, bare[1] if bare else value)
    cluster = found.get("clustername")
    if cluster is None or not cluster.text:
        raise not_understood(command, "no line ClusterName")
    return found


def parse_settings(text: str, host: str = "") -> SlurmSettings:
    """Read the answer of SHOW_CONFIG for a daemon on this host.

    Among daemons on controller hosts only the one on the active controller's host acts, so that
    they do not undo each other's order; a daemon on another host always acts. A controller gave
    this answer, so if none is reported UP, its own ping was too slow.
    """
    keys = parse_config(text)
    lines = {key: "" if value.text in NOTHING else value.text for key, value in keys.items()}
    if "prioritytype" not in lines:
        raise not_understood(" ".join(SHOW_CONFIG), "no line PriorityType")
    words = lines.get("accountingstorageenforce", "").lower().split(",")
    no_licences: dict[str, float] = {}
    age, fairshare, size = (
        _parsed(int, lines.get(f"priorityweight{term}", "0"), 0)
        for term in ("age", "fairshare", "jobsize")
    )
    tres = filter(None, lines.get("priorityweighttres", "").split(","))
    resources = [_parsed(float, each.partition("=")[2], 0.0) for each in tres]
    highest_age = _parsed(parse_duration, lines.get("prioritymaxage", ""), 0.0)
    ages = lines["prioritytype"] == MULTIFACTOR and highest_age > 0
    controllers = [(_short(each["host"]), each["state"]) for each in _CONTROLLER.finditer(text)]
    is_here = _short(host) in dict(controllers)
    up = [name for name, state in controllers if state == "UP"]
    year, month, *_ = (*release_numbers(lines.get("slurm_version", "")), 0, 0)
    return SlurmSettings(
        cluster=lines["clustername"],
        priority_type=lines["prioritytype"],
        release=(year, month),
        facts=SchedulerFacts(
            release=lines.get("slurm_version", "unknown"),
            lever="SiteFactor",
            harm=_harm(lines["prioritytype"], lines.get("prioritysitefactorplugin", "")),
            points_an_hour=age / (highest_age / HOUR) if ages else 0.0,
            fairshare_points=fairshare,
            replaced_points=age + fairshare + size + sum(resources),
            pass_interval=_pass_interval(lines.get("schedulerparameters", "")),
            in_charge=(up[0] == _short(host) if up else None) if is_here else True,
            controller_here=is_here,
            write_cost="SiteFactor: a term of its own, nothing else is touched",
            tried=TRIED,
        ),
        unlimited=_unlimited({word.strip() for word in words} - {""}),
        counts_memory="MEMORY" in lines.get("selecttypeparameters", "").upper(),
        counts_gres=bool(lines.get("grestypes")),
        tracked=frozenset(lines.get("accountingstoragetres", "").split(",")),
        licences=tuple(sorted(_parsed(parse_licences, lines.get("licenses", ""), no_licences))),
    )


def _pass_interval(parameters: str) -> float:
    """Seconds between passes by the more frequent scheduler; 0 and -1 are no interval."""
    given = {
        name: re.search(rf"\b{name}\s*=\s*(\d{{1,18}})", parameters, re.IGNORECASE)
        for name in _PASSES
    }
    return min(
        float(found[1]) if (found := given[name]) and int(found[1]) else default
        for name, default in _PASSES.items()
    )


def _unlimited(enforced: set[str]) -> str | None:
    if "all" in enforced or ("qos" in enforced and enforced & {"limits", "safe"}):
        return None
    words = ",".join(sorted(enforced | {"associations", "limits", "qos"}))
    return (
        f"Slurm enforces no limits of a QOS: set AccountingStorageEnforce={words} in slurm.conf "
        "and restart slurmctld"
    )


def _harm(priority_type: str, plugin: str) -> str | None:
    if priority_type == BASIC:
        return (
            f"PriorityType={BASIC} ignores SiteFactor: write PriorityType={MULTIFACTOR}, "
            f"{_NO_WEIGHTS} into slurm.conf and restart slurmctld. Jobs without a factor then "
            "start in order of submission."
        )
    if priority_type != MULTIFACTOR:
        return (
            f"PriorityType={priority_type} is not known to use SiteFactor: set "
            f'PriorityType={MULTIFACTOR} in slurm.conf, or mode = "shadow".'
        )
    if plugin:
        return (
            f"PrioritySiteFactorPlugin={plugin} overwrites every factor: remove it from "
            'slurm.conf, or set mode = "shadow".'
        )
    return None


def _parsed(kind: Callable[[str], Parsed], text: str, otherwise: Parsed) -> Parsed:
    """A value that no cycle depends on; `otherwise` if it is not understood."""
    try:
        return kind(text)
    except ValueError:
        logger.warning("setting=unknown value=%r", text)
        return otherwise


SDIAG = ("sdiag",)
#: Of the 256 threads with which slurmctld serves calls; beyond these, callers wait and time out.
BUSY_THREADS = 180
#: Messages to nodes that wait to be sent.
BUSY_AGENTS = 500
#: Counters of jobs; any change of them is a change of the queue.
EVENTS = ("submitted", "started", "completed", "canceled", "failed")
_NUMBER = re.compile(r"^\s*(?P<name>[A-Za-z][A-Za-z ]*):\s+(?P<value>\d+)\s*$", re.MULTILINE)


def parse_load(text: str) -> SchedulerLoad:
    """Read the answer of SDIAG; slurmctld resets its counters from time to time."""
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
