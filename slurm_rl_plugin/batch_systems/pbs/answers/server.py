"""A server's settings and formula, its schedulers, nodes and queues, as PBS prints them."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from slurm_rl_plugin.accounting.pbs.records import mebibytes, parse_duration
from slurm_rl_plugin.batch_systems.pbs.answers.fair_share import FairShareFiles, read_fair_share
from slurm_rl_plugin.batch_systems.pbs.answers.fields import (
    SCORE,
    parse_count,
    parse_score,
    resources_of,
    text,
)
from slurm_rl_plugin.batch_systems.pbs.process import (
    QSTAT_QUEUES,
    PbsCommands,
    not_understood,
    section,
    sentence,
)
from slurm_rl_plugin.domain.machine import Machine, MachinePartition
from slurm_rl_plugin.domain.nodes import NodeNow
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.domain.site_priority import CLASSIC
from slurm_rl_plugin.domain.sort_formula import check_formula
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.nodes import Node, ServedPartition
from slurm_rl_plugin.machine_files.reader import kinds_of, names_of_resources
from slurm_rl_plugin.machine_files.statements import compress

QSTAT_SERVER = ("qstat", "-B", "-f", "-F", "json")
#: States in which the daemon must not write to the server.
_AWAY = ("Hot", "Terminating", "Initializing", "Stopping", "Down")


@dataclass(frozen=True, slots=True, kw_only=True)
class PbsServer:
    """The server's attributes that the adapter uses."""

    release: str  #: of PBS
    state: str  #: such as `Active`, `Scheduling`, `Idle`
    formula: str  #: by which jobs are sorted; "" for none
    default_score: float | None  #: of jobs without a score of their own; None if there is none
    keeps_history: bool  #: whether jobs that ended can be queried
    scheduling: bool  #: whether PBS starts jobs
    counts_eligible_time: bool  #: whether PBS counts waits without holds and own limits
    counts: tuple[int, ...]  #: jobs in total and in each state

    @property
    def base(self) -> int:
        """The score of a job that we never wrote: 0 if the site has set no default."""
        default = self.default_score
        return round(default) if default is not None and default > 0 else 0

    def harm(self) -> str | None:
        """Why scores would have no effect; None if they work."""
        if not re.search(rf"\b{SCORE}\b", self.formula):
            return sentence("no_score")
        return None

    def struggles(self) -> str | None:
        """Why we should write nothing now; None if the server is well."""
        return f"pbs_server is {self.state}" if self.state.startswith(_AWAY) else None


def parse_server(document: Mapping[str, Any]) -> PbsServer:
    """The one server of an answer."""
    servers = section(document, "Server")
    if not servers:
        raise not_understood(" ".join(QSTAT_SERVER), str(dict(document)))
    values = next(iter(servers.values()))
    # any job that comes, starts, ends, is held or released changes a count
    by_state = text(values.get("state_count")).split()
    counts = (parse_count(word.rpartition(":")[2]) for word in by_state)
    return PbsServer(
        release=text(values.get("pbs_version") or document.get("pbs_version")) or "unknown",
        state=text(values.get("server_state")),
        formula=text(values.get("job_sort_formula")),
        default_score=parse_score(resources_of(values, "resources_default").get(SCORE)),
        keeps_history=_is_true(values.get("job_history_enable")),
        scheduling=_is_true(values.get("scheduling")),
        counts_eligible_time=_is_true(values.get("eligible_time_enable")),
        counts=(parse_count(values.get("total_jobs")), *counts),
    )


def _is_true(value: Any) -> bool:
    return text(value).lower() in ("true", "1")


LIST_SCHEDULERS = ("qmgr", "-c", "list sched")


class PbsScheduler(NamedTuple):
    """One scheduler of the server."""

    name: str  #: `default` for the first
    formula: str  #: by which it sorts if the server has none; "" for none
    threshold: float | None  #: at or below which no job runs; None if unset

    def harm(self, ours: str) -> str | None:
        """Why scores would have no effect, or a bad one; None if they work."""
        if self.threshold is not None:
            return sentence("threshold", name=self.name)
        if self.formula:
            of_server = self.formula == ours
            which = "formula_of_server" if of_server else "formula_of_its_own"
            return sentence(which, name=self.name)
        return None


def parse_schedulers(words: str) -> tuple[PbsScheduler, ...]:
    """Every scheduler of an answer; qmgr continues a long value in an indented line."""
    parts = re.split(r"^Sched (\S+)\s*$", re.sub(r"\n\t+", "", words), flags=re.MULTILINE)
    found = []
    for name, lines in zip(parts[1::2], parts[2::2], strict=True):
        values = dict(re.findall(r"^\s+(\w+) = (.*?)\s*$", lines, re.MULTILINE))
        threshold = parse_score(values.get("job_sort_formula_threshold"))
        found.append(PbsScheduler(name, values.get("job_sort_formula", ""), threshold))
    return tuple(found)


#: Weight of one point of the score in the formula; the site's own terms add less.
WEIGHT = 1000
#: Keeps the order of its argument, and is below 500 for any number below 1e217. PBS evaluates the
#: formula as Python with all of `math`.
_BOUND = "asinh"


def formula_with(site: str) -> str:
    """Our score, and the site's terms for jobs with equal scores; "" for none."""
    return f"{WEIGHT}*{SCORE} + {_BOUND}({site})" if site else SCORE


def is_bounded(formula: str) -> bool:
    """Whether its other terms can never outweigh one point of our score."""
    try:
        body = ast.parse(formula.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    match body:
        case ast.BinOp(ours, ast.Add(), ast.Call(ast.Name(name), [_])) if name == _BOUND:
            return _weight_of(ours) >= WEIGHT
        case _:
            return _weight_of(body) > 0


def _weight_of(node: ast.expr) -> float:
    """Weight of one point of the score in a term; 0 if it is not the score alone."""
    match node:
        case ast.Name(name) if name == SCORE:
            return 1.0
        case ast.BinOp(ast.Constant(int() | float() as weight), ast.Mult(), ast.Name(name)):
            return weight if name == SCORE else 0.0
        case _:
            return 0.0


def without_ours(formula: str) -> str:
    """The site's terms of a formula, with or without our score in any earlier form."""
    formula = formula.strip()
    ours = re.fullmatch(rf"(?:{WEIGHT}\*)?{SCORE}(?: \+ (?:{_BOUND})?\((.*)\))?", formula)
    site = (ours[1] or "") if ours else formula
    if re.search(rf"\b{SCORE}\b", site) or '"' in site:
        raise ConfigurationError(
            f"the site's terms in the formula {formula!r} cannot be found: give them with "
            f"--formula, without {SCORE} and without double quotes."
        )
    return site


#: Only an administrator changes these settings, so they are read rarely while they are right.
SECONDS_BETWEEN_LOOKS = 60.0


class SortSettings:
    """Checks schedulers and queues, once a minute while nothing is wrong, else each time."""

    def __init__(self, commands: PbsCommands, clock: Callable[[], float]) -> None:
        self._commands = commands
        self._clock = clock
        self._sound = (-math.inf, "")  #: when nothing was wrong, and with which formula

    def harm(self, ours: str) -> str | None:
        """Why scores would have no effect, or a bad one; None if they work."""
        now = self._clock()
        then, formula = self._sound
        if formula == ours and 0.0 <= now - then < SECONDS_BETWEEN_LOOKS:
            return None
        queues = section(self._commands.read_json(QSTAT_QUEUES), "Queue")
        found = (each.harm(ours) for each in parse_schedulers(self._commands.read(LIST_SCHEDULERS)))
        harm = next(filter(None, found), None)
        for name, queue in queues.items():
            if harm is None and SCORE in resources_of(queue, "resources_default"):
                # PBS would set a removed score to the queue's default
                harm = sentence("default_of_queue", name=name)
        self._sound = (now, ours) if harm is None else (-math.inf, "")
        return harm


#: Hosts, each with the sum of its vnodes.
PBSNODES = ("pbsnodes", "-a", "-F", "json")
#: Vnodes: nothing else shows which vnodes of a host are out of use or taken whole.
VNODES_NOW = ("pbsnodes", "-a", "-v", "-F", "json")
#: A node in one of these states takes no new job; jobs that run there may end. The load of a `busy`
#: node is above its max_load.
_OUT_OF_USE = frozenset(
    {
        *("down", "offline", "busy", "initializing", "unknown", "state-unknown", "stale"),
        *("provisioning", "wait-provisioning", "unresolvable", "maintenance", "sleep"),
    }
)
#: A job or a reservation has the node to itself.
_TAKEN_WHOLE = frozenset({"job-exclusive", "resv-exclusive"})


def parse_capacity(document: Mapping[str, Any]) -> int:
    """Usable processors; of nodes out of use only those that a job still has."""
    return sum(
        parse_count(
            resources_of(
                node, "resources_assigned" if is_out_of_use(node) else "resources_available"
            ).get("ncpus")
        )
        for node in section(document, "nodes").values()
    )


def is_out_of_use(node: Mapping[str, Any]) -> bool:
    """Whether a node takes no new job now."""
    return bool(_states(node) & _OUT_OF_USE)


def _states(node: Mapping[str, Any]) -> set[str]:
    """States in lower case: PBS writes `Stale` with a capital."""
    return {word.strip().lower() for word in text(node.get("state")).split(",")}


def parse_nodes(document: Mapping[str, Any]) -> list[NodeNow]:
    """The hosts now; a host without a queue serves the queues that no host names.

    Vnodes of a host that serve the same queue count as one node, since a chunk of a job may have
    parts of several (seen on 23.06).
    """
    hosts: dict[tuple[str, str], list[NodeNow]] = {}
    for name, values in section(document, "nodes").items():
        queue = text(values.get("queue"))
        host = text(resources_of(values, "resources_available").get("host")) or name
        hosts.setdefault((host, queue), []).append(_vnode(host, queue, values))
    return [_host(vnodes) for vnodes in hosts.values()]


def _vnode(host: str, queue: str, values: Mapping[str, Any]) -> NodeNow:
    has = amounts_of(resources_of(values, "resources_available"))
    taken = amounts_of(resources_of(values, "resources_assigned"))
    return NodeNow(
        name=host,
        partitions=frozenset({queue}) if queue else frozenset(),
        serves=not is_out_of_use(values),
        has=has,
        taken=has if _states(values) & _TAKEN_WHOLE else taken,
    )


def _host(vnodes: Sequence[NodeNow]) -> NodeNow:
    """One node of several vnodes; of a vnode out of use only what jobs still have counts."""
    first = vnodes[0]
    if len(vnodes) == 1:
        return first
    serves = any(each.serves for each in vnodes)
    counts = NodeNow.usable if serves else (lambda each, name: each.has.get(name, 0.0))
    return NodeNow(
        name=first.name,
        partitions=first.partitions,
        serves=serves,
        has={name: sum(counts(each, name) for each in vnodes) for name in first.has},
        taken={name: sum(each.taken[name] for each in vnodes) for name in first.has},
    )


def amounts_of(resources: Mapping[str, Any]) -> dict[str, float]:
    """Amounts of the modelled resources, memory in MiB; 0 for a missing one."""
    return {
        CPUS: float(parse_count(resources.get("ncpus"))),
        MEMORY: mebibytes(text(resources.get("mem"))),
        GPUS: float(parse_count(resources.get("ngpus"))),
    }


_NOT_READ = (
    "limits of queues and of the server and how pbs_sched plans are not read: jobs start as under "
    "Slurm's backfill, in one order for all queues."
)
#: Points of the first place in the order of `fair_share`, so that each rank is a whole number.
_FAIR_SHARE_POINTS = 1e6


def read_running_machine(
    read_json: Callable[[Sequence[str]], Mapping[str, Any]], folder: Path
) -> Machine:
    """Ask a running OpenPBS for its machine; vnodes that are out of use now count."""
    nodes, queues, server = (read_json(each) for each in (PBSNODES, QSTAT_QUEUES, QSTAT_SERVER))
    formula, files = parse_server(server).formula, read_fair_share(folder)
    return with_order(parse_machine(nodes, queues), formula, files)


def with_order(machine: Machine, formula: str, files: FairShareFiles) -> Machine:
    """The machine with the order of pbs_sched: by formula, else by fair share.

    If replays cannot compute the formula, jobs are in the order of their submission.
    """
    notes = [*machine.left_out, *files.notes]
    weights = replace(
        machine.weights,
        half_life=files.decay_every * math.log(0.5) / math.log(files.decay_factor),
        decay_every=files.decay_every,
        decay_factor=files.decay_factor,
        period=0.0,
    )
    try:
        own = without_ours(formula)
        if own:
            check_formula(own)
    except ConfigurationError as error:
        notes.append(f"{error} Replays sort without it.")
    else:
        if own or not files.sorts_by_usage:
            formula = own or files.sort_key
            weights = replace(weights, formula=formula, flags=frozenset({CLASSIC}))
        else:
            weights = replace(weights, fairshare=_FAIR_SHARE_POINTS)
    return replace(
        machine,
        associations=files.associations,
        entity=files.entity,
        partitions=tuple(replace(each, billing=files.usage) for each in machine.partitions),
        weights=weights,
        left_out=tuple(notes),
    )


def parse_machine(node_list: Mapping[str, Any], queue_list: Mapping[str, Any]) -> Machine:
    """The machine of the answers to PBSNODES and QSTAT_QUEUES."""
    found = section(node_list, "nodes")
    queues = {
        name: values
        for name, values in section(queue_list, "Queue").items()
        if text(values.get("queue_type")).lower().startswith("e")
    }
    if not found or not queues:
        command = PBSNODES if not found else QSTAT_QUEUES
        raise not_understood(" ".join(command), str(queue_list if found else node_list))
    nodes = {
        name: Node(name, amounts_of(resources_of(values, "resources_available")), frozenset(), 1)
        for name, values in found.items()
    }
    partitions = [_served(name, values, found) for name, values in queues.items()]
    resources = names_of_resources(nodes.values())
    kinds, served = kinds_of(nodes, partitions, resources)
    return Machine(
        name=text(node_list.get("pbs_server")),
        resources=resources,
        kinds=kinds,
        partitions=served,
        left_out=(_NOT_READ, *_notes(found, queues)),
    )


def _served(
    name: str, values: Mapping[str, Any], nodes: Mapping[str, Mapping[str, Any]]
) -> ServedPartition:
    """A queue; vnodes that name it serve it alone, and a queue without such vnodes has the rest."""
    own = frozenset(node for node, each in nodes.items() if text(each.get("queue")) == name)
    rest = frozenset(node for node, each in nodes.items() if not text(each.get("queue")))
    priority = text(values.get("Priority"))
    widest = parse_count(resources_of(values, "resources_max").get("nodect"))
    partition = MachinePartition(
        name=name,
        kinds=(),
        priority_factor=int(priority) if re.fullmatch(r"-?\d{1,6}", priority, re.ASCII) else 0,
        longest=_seconds(values, "resources_max"),
        default_time=_seconds(values, "resources_default"),
        widest=float(widest) if widest else math.inf,
    )
    return ServedPartition(partition, own or rest)


def _seconds(values: Mapping[str, Any], key: str) -> float:
    seconds = parse_duration(text(resources_of(values, key).get("walltime")))
    return math.inf if math.isnan(seconds) else seconds


def _notes(
    nodes: Mapping[str, Mapping[str, Any]], queues: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    if away := [name for name, values in nodes.items() if is_out_of_use(values)]:
        yield f"{compress(away)}: out of use now, but counted."
    whole = [n for n, values in nodes.items() if "excl" in text(values.get("sharing")).lower()]
    if whole:
        yield f"{compress(whole)}: allocated whole by its sharing attribute; jobs share it here."
    for name, values in queues.items():
        if text(values.get("started")) == "False" or text(values.get("enabled")) == "False":
            yield f"queue {name}: stopped or closed now, but its jobs start here."
