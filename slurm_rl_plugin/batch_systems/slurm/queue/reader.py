"""Reads the queue with `squeue`, the nodes with `sinfo`, and which jobs a federation shares."""

from __future__ import annotations

import logging
import math
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.batch_systems.port import FAIL, WARN, Check
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    ASK_WAITING,
    ASK_WAITING_OR_RUNNING,
    FIELDS_WITH_REQUESTS,
    FINAL_STATES,
    QUEUE_FIELDS,
    RUNNING_STATES,
    WAITING_OR_RUNNING,
    WAITING_STATES,
    QueueRow,
    parse_records,
    queue_format,
    request_fields,
    together,
    with_comment,
)
from slurm_rl_plugin.batch_systems.slurm.answers.machine import SHOW_NODES_NOW, parse_nodes
from slurm_rl_plugin.batch_systems.slurm.answers.reasons import is_own_doing
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SlurmSettings
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, not_understood
from slurm_rl_plugin.domain.jobs import RunningJobs
from slurm_rl_plugin.domain.nodes import MachineResources, NodeNow, machine_resources
from slurm_rl_plugin.domain.resources import CPUS, MEMORY, ResourcesNow
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.machine_files.statements import expand
from slurm_rl_plugin.units import MINUTE

logger = logging.getLogger(__name__)

#: Seconds between two looks.
PACE = MINUTE


class MachineLook:
    """Asks `sinfo` for memory and generic resources of nodes, where slurm.conf counts any."""

    def __init__(self, commands: CommandRunner, clock: Callable[[], float]) -> None:
        self._commands = commands
        self._clock = clock
        self._counts_memory = self._counts_any = False
        self._next = -math.inf
        #: Fields of squeue that tell what jobs ask of nodes, on this release.
        self.request_fields: tuple[str, ...] = FIELDS_WITH_REQUESTS
        self._licences: tuple[str, ...] = ()
        self._nodes: Mapping[str, NodeNow] = {}
        #: What was seen last; None where the machine has processors alone, or nobody knows.
        self.seen: MachineResources | None = None

    def counts(self, settings: SlurmSettings) -> None:
        """Take from slurm.conf whether there is anything to look at."""
        self._counts_memory = settings.counts_memory
        self._counts_any = settings.counts_memory or settings.counts_gres
        self._licences = settings.licences
        self.request_fields = request_fields(settings.release_number)

    @property
    def asked_for(self) -> tuple[str, ...]:
        """Names of what a job may ask for: of nodes, then licences; none of processors alone."""
        return () if self.seen is None else (*self.seen.names, *self._licences)

    @property
    def uncounted(self) -> tuple[str, ...]:
        """What squeue tells that jobs ask for and Slurm gives to any number of them."""
        return () if self._counts_memory else (MEMORY,)

    def now(
        self, rows: Iterable[QueueRow], running: RunningJobs, processors: int
    ) -> ResourcesNow | None:
        """What the machine has and what of it is free; None where it has processors alone."""
        if self.seen is None:
            return None
        return self.seen.with_running(running, processors, self._withheld(rows))

    def _withheld(self, running: Iterable[QueueRow]) -> Mapping[str, float]:
        """What nodes have beside what the jobs got that have them for themselves."""
        found: Counter[str] = Counter()
        for row in (part for each in running for part in each.components or (each,)):
            if row.asked is None or not row.asked.exclusive:
                continue
            nodes = [self._nodes.get(name) for name in _names_of(row.nodes)]
            if None in nodes:
                continue  # no look has shown one of them: then what is left there is not known
            for node in filter(None, nodes):
                found.update({name: node.usable(name) for name in node.has})
            found.subtract(dict(row.asked.amounts))
        return {name: amount for name, amount in found.items() if name != CPUS and amount > 0}

    def look(self) -> None:
        """Look again where it is time; a fault is told in the log, and then nothing is known."""
        now = self._clock()
        if not self._counts_any:
            self.seen = None
        elif not self._next - PACE <= now < self._next:
            self._next = now + PACE
            self.seen = self._read()

    def _read(self) -> MachineResources | None:
        try:
            answer = self._commands.read(SHOW_NODES_NOW)
            nodes = parse_nodes(answer, counts_memory=self._counts_memory)
            self._nodes = {node.name: node for node in nodes}
            return machine_resources(nodes)
        except BatchSystemError as error:  # an order by processors alone is better than none
            logger.warning("resources=unknown reason=%s", error)
            return None


def _names_of(nodes: str) -> list[str]:
    try:
        return expand(nodes)
    except ValueError:
        return []


#: Bits of a job's number; those above name the cluster of a federation that it was submitted to.
_NUMBER_BITS = 26
#: None of these fields holds a user's text, so that no mark has to tell records apart.
_SIBLINGS = (
    *("squeue", "--noheader", "--all", "--local", "--states", ASK_WAITING),
    *("-O", "ArrayJobID:|,OriginRaw:|,SiblingsViableRaw:"),
)
#: Prints the clusters of the federation, nothing where this cluster is in none.
_FEDERATION = ("scontrol", "show", "federation")
#: What `squeue` prints for a job without siblings, as a heterogeneous one.
_NO_SIBLING = "NA"


def shared_jobs(commands: CommandRunner, waiting: Iterable[QueueRow]) -> frozenset[int]:
    """Numbers of the waiting jobs and arrays that are not this cluster's alone.

    Outside a federation Slurm is not asked. A job that has come or changed since the queue was read
    counts as shared.
    """
    federated = {row.array_id for row in waiting if row.array_id >> _NUMBER_BITS}
    if not federated:
        return frozenset()
    alone: set[int] = set()
    shared: set[int] = set()
    for line in commands.read(_SIBLINGS).splitlines():
        number, *clusters = line.strip().split("|")
        if not number.isdecimal() or len(clusters) != 2:
            raise not_understood("squeue", line)
        origin, siblings = clusters
        (alone if siblings in (origin, _NO_SIBLING) else shared).add(int(number))
    return frozenset(federated - (alone - shared))


def federation_checks(commands: CommandRunner, waiting: Sequence[QueueRow]) -> list[Check]:
    """What the federation keeps us from ordering; empty where this cluster is in none."""
    try:
        text = commands.read(_FEDERATION)
        shared = shared_jobs(commands, waiting)
    except BatchSystemError as error:
        return [Check(FAIL, "federation", str(error))]
    others = [
        line.split()[1].partition(":")[0]
        for line in text.splitlines()
        if line.startswith("Sibling:") and len(line.split()) > 1
    ]
    if not others:
        return []
    jobs = {row.array_id for row in waiting}
    what = (
        f"in a federation with {', '.join(others)}: {len(shared)} of {len(jobs)} waiting jobs are "
        "shared with other clusters and keep the site's own priority; submit with `sbatch "
        "-M CLUSTER` what is to be ordered here"
    )
    return [Check(WARN, "federation", what)]


def whole_jobs(rows: Sequence[QueueRow]) -> list[QueueRow]:
    """The rows that are no components, and one for each heterogeneous job.

    Slurm starts the components together or not at all, so they have one place in the queue. It
    tries each at its own priority, and where another job that needs the same nodes stands between
    two components, neither may start (seen on 22.05): so they must stand together.
    """
    components: dict[int, list[QueueRow]] = {}
    for row in rows:
        if row.het_id:
            components.setdefault(row.het_id, []).append(row)
    singles = [row for row in rows if not row.het_id]
    return [*singles, *(_as_one(parts) for parts in components.values())]


def _as_one(parts: Sequence[QueueRow]) -> QueueRow:
    """Under the number of the first component, the leader, which speaks for the others too.

    It is held, not eligible, unlimited or waiting by its own doing where one of them is, and has
    accrued what the least of them has. Its priority is the lowest: only
    once that component has found its place can all of them start.
    """
    parts = sorted(parts, key=lambda row: row.job_id)
    leader = parts[0]
    return replace(
        leader,
        job_id=leader.het_id,
        array_id=leader.het_id,
        state=min((row.state for row in parts), key=_progress),
        reason=_reason(parts),
        priority=min(row.priority for row in parts),
        processors=sum(row.processors for row in parts),
        eligible=max(row.eligible for row in parts),
        accrue=max(row.accrue for row in parts),
        start=float(np.max([row.start for row in parts])),
        end=float(np.max([row.end for row in parts])),
        time_limit=float(np.max([row.time_limit for row in parts])),
        components=tuple(parts),
        asked=together([row.asked for row in parts]),
    )


def _reason(parts: Sequence[QueueRow]) -> str:
    held = (row.reason for row in parts if row.held)
    own = (row.reason for row in parts if is_own_doing(row.reason))
    return next(held, None) or next(own, None) or parts[0].reason


def _progress(state: str) -> int:
    """Of several components the one that is least far on tells how far the job is."""
    if state in WAITING_STATES:
        return 0
    if state in RUNNING_STATES:
        return 1
    return 3 if state in FINAL_STATES else 2


SQUEUE = ("squeue", "--noheader", "--all", "--local")


class Squeue:
    """Lists Slurm's jobs with `squeue`, one row a record.

    It `reads_comments` where users may choose classes in the comments of their jobs.
    """

    def __init__(
        self,
        commands: CommandRunner,
        machine: MachineLook | None = None,
        *,
        reads_comments: bool = False,
    ) -> None:
        self._commands = commands
        self._machine = machine
        self.reads_comments = reads_comments
        self._fields: tuple[str, ...] = QUEUE_FIELDS
        #: Records of the last look at the whole queue; most are the same in the next one.
        self._known: Mapping[int, QueueRow] = {}

    @property
    def tells_requests(self) -> bool:
        """Whether the machine has more than processors, so that what jobs ask of it is listed."""
        return self._machine is not None and self._machine.seen is not None

    def waiting_and_running(self) -> list[QueueRow]:
        """Ask `squeue` for jobs that wait or run, and keep the answer for the next look."""
        self._known = self._read("--states", ASK_WAITING_OR_RUNNING)
        return [row for row in self._known.values() if row.state in WAITING_OR_RUNNING]

    def waiting(self) -> list[QueueRow]:
        """Ask `squeue` for jobs that wait only."""
        answer = self._read("--states", ASK_WAITING)
        return [row for row in answer.values() if row.state in WAITING_STATES]

    def of_arrays(self, array_ids: Sequence[int]) -> list[QueueRow]:
        """Ask `squeue` for these numbers in all states; what it does not know is left out."""
        # Asked for one unknown job squeue fails, for several it does not: so name one twice.
        named = ",".join(str(array_id) for array_id in [array_ids[0], *array_ids])
        return list(self._read("--states", "all", "--jobs", named).values())

    def _read(self, *options: str) -> dict[int, QueueRow]:
        fields: tuple[str, ...] = QUEUE_FIELDS
        if self._machine is not None and self.tells_requests:
            fields = self._machine.request_fields
        if self.reads_comments:
            fields = with_comment(fields)
        if fields != self._fields:
            self._fields, self._known = fields, {}
        mark = secrets.token_hex(4)
        form = queue_format(mark, fields)
        return parse_records(
            self._commands.read([*SQUEUE, *options], form), mark, self._known, fields
        )
