"""Fair share of pbs_sched, by its files, which only root may read, and by `pbsfs`."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.pbs.records import parse_duration
from slurm_rl_plugin.batch_systems.pbs.answers.fields import PbsJob
from slurm_rl_plugin.batch_systems.pbs.process import DEFAULT_HOME, PbsCommands, sentence
from slurm_rl_plugin.batch_systems.port import to_sum_one
from slurm_rl_plugin.domain.machine import OF_ACCOUNTS, OF_QUEUES, OF_USERS
from slurm_rl_plugin.domain.resources import CPUS
from slurm_rl_plugin.domain.share_tree import ROOT, UNKNOWN, Association
from slurm_rl_plugin.domain.sort_formula import used_each_second
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError
from slurm_rl_plugin.units import DAY, FloatArray
from slurm_rl_plugin.whole_file import read_whole

_LINE = re.compile(r"\s*(\w+)\s*:\s*(?:\"([^\"]*)\"?|'([^']*)'?|(\S+))\s*(\S*)")
_DIGITS = re.compile(r"\d{1,18}", re.ASCII)
SORT_KEY = "job_sort_key"
#: Words for the periods into which `holidays` divides the week; a line without one is for both.
_PERIODS = {"prime": ("prime",), "non_prime": ("non_prime",), "none": ()}
_BOTH = ("prime", "non_prime")


@dataclass(frozen=True, slots=True)
class SchedConfig:
    """The values of one file, by name and period.

    The last line for a name counts, but the first `job_sort_key`, which sorts before the others.
    """

    values: dict[tuple[str, str], str]  #: (name, `prime` or `non_prime`) -> value, without quotes

    def always(self, name: str) -> bool:
        """Whether it is true in both periods."""
        return all(self._is_true(name, period) for period in _BOTH)

    def ever(self, name: str) -> bool:
        """Whether it is true in at least one period."""
        return any(self._is_true(name, period) for period in _BOTH)

    def text(self, name: str) -> str:
        """Its value in prime time, else in the other period; "" if it is not set."""
        return next((self.values[name, each] for each in _BOTH if (name, each) in self.values), "")

    def _is_true(self, name: str, period: str) -> bool:
        """True as in pbs_sched, even for `no`; false if unset, `false` or a number of 0."""
        value = self.values.get((name, period), "").lower()
        number = _DIGITS.match(value)
        return int(number[0]) != 0 if number else value not in ("", "false")


def sched_folder(commands: PbsCommands) -> Path:
    """`sched_priv` with the files of the standard scheduler; only root may enter it."""
    return Path(commands.conf.get("PBS_HOME", DEFAULT_HOME), "sched_priv")


def read_sched_config(path: Path) -> SchedConfig:
    """Read the file; lines of another form are ignored, as by pbs_sched."""
    values: dict[tuple[str, str], str] = {}
    for line in read_whole(path).decode(errors="replace").replace("\\\n", " ").splitlines():
        found = None if line.lstrip().startswith("#") else _LINE.match(line)
        if found is not None:
            value = next((each for each in found.groups()[1:4] if each is not None), "")
            for period in _PERIODS.get(found[5].lower(), _BOTH):
                if found[1] != SORT_KEY or (SORT_KEY, period) not in values:
                    values[found[1], period] = value
    return SchedConfig(values)


#: fairshare_entity -> the column of a log with its names.
_COLUMNS = {
    "euser": OF_USERS,
    "egroup": OF_ACCOUNTS,
    "Account_Name": OF_ACCOUNTS,
    "queue": OF_QUEUES,
}
#: Defaults of pbs_sched.
_ENTITY, _USAGE, _KEPT = "euser", "cput", 0.5
_WHOLE = re.compile(r"[+-]?\d{1,9}", re.ASCII)
_BY_PERCENT = {"high": "fairshare_perc", "low": "-fairshare_perc"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShareFiles:
    """Fair share in the scheduler's files."""

    associations: tuple[Association, ...] = ()  #: users below groups; empty: not known
    entity: str = ""  #: column of a log with their names, see `Machine.entity`; "" without a tree
    usage: Mapping[str, float] = field(default_factory=dict)  #: weights of a second of a job
    decay_every: float = DAY  #: seconds between two decays
    decay_factor: float = _KEPT  #: by which a decay multiplies
    sorts_by_usage: bool = False  #: `fair_share` is on
    sort_key: str = ""  #: formula of the first job_sort_key, if it is fair_share_perc
    notes: tuple[str, ...] = ()  #: what is not modelled, in sentences


def read_fair_share(folder: Path) -> FairShareFiles:
    """Read sched_config and resource_group; a note says what cannot be read or modelled."""
    try:
        config = read_sched_config(folder / "sched_config")
    except OSError as error:
        return FairShareFiles(notes=(sentence("no_sched_config", error=error.strerror),))
    notes = list(_notes(config))
    seconds = parse_duration(config.text("fairshare_decay_time") or config.text("half_life"))
    associations, entity = _tree(folder / "resource_group", config, notes)
    return FairShareFiles(
        associations=associations,
        entity=entity,
        usage=_usage(config, notes, is_used=config.ever("fair_share") or len(associations) > 1),
        decay_every=seconds if seconds >= 1.0 and math.isfinite(seconds) else DAY,
        decay_factor=_decay_factor(config),
        sorts_by_usage=config.ever("fair_share"),
        sort_key=_sort_key(config, notes),
        notes=tuple(notes),
    )


def parse_tree(text: str, unknown_shares: int) -> tuple[Association, ...]:
    """The tree of resource_group, without lines that pbs_sched refuses."""
    rows: dict[str, tuple[str, int]] = {UNKNOWN: (ROOT, unknown_shares)}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 4 or words[0].startswith("#"):
            continue
        name, number, above, shares = words[:4]
        whole = _WHOLE.fullmatch(number) and _WHOLE.fullmatch(shares)
        if whole and name not in rows and above in (ROOT, *rows):
            rows[name] = above, max(int(shares), 0)
    groups = {UNKNOWN, *(above for above, _ in rows.values())}
    return tuple(
        Association(name, parent=above, share=float(shares))
        if name in groups
        else Association(above, name, share=float(shares))
        for name, (above, shares) in rows.items()
    )


def _tree(path: Path, config: SchedConfig, notes: list[str]) -> tuple[tuple[Association, ...], str]:
    """The tree and the column of its entities' names; both empty if either is unknown."""
    entity = config.text("fairshare_entity") or _ENTITY
    if entity not in _COLUMNS:
        notes.append(sentence("no_such_entity", entity=entity))
        return (), ""
    if entity == "egroup":
        notes.append(sentence("entity_of_groups"))
    try:
        text = read_whole(path).decode(errors="replace")
    except OSError as error:
        notes.append(sentence("no_groups", name=path.name, error=error.strerror))
        return (), ""
    shares = config.text("unknown_shares")
    unknown = max(int(shares), 0) if _WHOLE.fullmatch(shares) else 0
    return parse_tree(text, unknown), _COLUMNS[entity]


def _usage(config: SchedConfig, notes: list[str], *, is_used: bool) -> dict[str, float]:
    formula = config.text("fairshare_usage_res") or _USAGE
    try:
        found = used_each_second(formula)
    except ConfigurationError as error:
        notes.append(sentence("no_usage", error=error))
        return {}
    if is_used and re.search(r"\bcput\b", formula):
        notes.append(sentence("all_cpus", formula=formula))
    return {} if found == {CPUS: 1.0} else found


def _decay_factor(config: SchedConfig) -> float:
    try:
        factor = float(config.text("fairshare_decay_factor"))
    except ValueError:
        return _KEPT
    return factor if 0.0 < factor < 1.0 else _KEPT


def _sort_key(config: SchedConfig, notes: list[str]) -> str:
    """The formula of the first job_sort_key; "" if it is not modelled."""
    key = config.text(SORT_KEY)
    name, _, way = key.partition(" ")
    if name == "fair_share_perc" and way.strip().lower() in _BY_PERCENT:
        return _BY_PERCENT[way.strip().lower()]
    if key:
        notes.append(sentence("sort_key", key=key))
    return ""


def _notes(config: SchedConfig) -> Iterator[str]:
    if config.ever("fair_share"):
        if not config.always("fair_share"):
            yield sentence("one_period")
        yield sentence("by_usage")


logger = logging.getLogger(__name__)

_NODE = re.compile(
    r"(?P<name>\S+)\s*:\s*Grp:\s*-?\d+\s*cgrp:\s*-?\d+\s*Shares:\s*-?\d+\s*"
    r"Usage:\s*(?P<usage>\d+)\s*Perc:\s*(?P<percent>[\d.]+)%",
    re.ASCII,
)
_NOBODY = ("TREEROOT", "unknown")


class FairshareNode(NamedTuple):
    """The share and the usage of a user, group or account."""

    share: float
    usage: float


class Fairshare:
    """Asks `pbsfs`; without a tree, or the right to read it, there are no shares."""

    def __init__(self, commands: PbsCommands) -> None:
        self._commands = commands
        self._is_logged = False

    def read(self) -> dict[str, FairshareNode]:
        """Each entity of the tree; empty if pbsfs fails."""
        try:
            return parse_pbsfs(self._commands.read(["pbsfs"]))
        except BatchSystemError as error:
            if not self._is_logged:
                logger.info("fairshare=unknown shares=equal reason=%s", error)
                self._is_logged = True
            return {}


def parse_pbsfs(words: str) -> dict[str, FairshareNode]:
    """The entities of a tree as `pbsfs` prints it; lines of another form are ignored."""
    found = (_NODE.match(line.strip()) for line in words.splitlines())
    return {
        node["name"]: FairshareNode(float(node["percent"]) / 100.0, float(node["usage"]))
        for node in found
        if node is not None and node["name"] not in _NOBODY
    }


def shares_of(
    accounts: Sequence[str],
    given: Mapping[str, float] | None,
    tree: Mapping[str, FairshareNode],
) -> FloatArray:
    """Share of each account, sum 1: as configured, else as in the tree, else equal."""
    known = given if given is not None else {name: node.share for name, node in tree.items()}
    column = np.array([known.get(name, 0.0) for name in accounts], dtype=np.float64)
    return to_sum_one(column if column.any() else np.ones(len(accounts), dtype=np.float64))


def usage_of(
    accounts: Sequence[str],
    tree: Mapping[str, FairshareNode],
    running: Sequence[PbsJob],
    now: float,
) -> FloatArray:
    """Usage of each account, sum 1 or all 0: as in the tree, else by its running jobs."""
    column = np.array([tree[n].usage if n in tree else 0.0 for n in accounts], dtype=np.float64)
    if not column.any():
        place = {name: number for number, name in enumerate(accounts)}
        for job in running:
            used = 0.0 if math.isnan(job.start) else max(now - job.start, 0.0) * job.processors
            column[place[job.account]] += used
    return to_sum_one(column)
