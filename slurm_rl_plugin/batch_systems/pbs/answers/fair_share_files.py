"""Fair share of pbs_sched by its files: the tree of resource_group, and keys of sched_config."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slurm_rl_plugin.accounting.pbs.fields import parse_duration
from slurm_rl_plugin.batch_systems.pbs.answers.sched_config import (
    SORT_KEY,
    SchedConfig,
    read_sched_config,
)
from slurm_rl_plugin.domain.machine import OF_ACCOUNTS, OF_QUEUES, OF_USERS
from slurm_rl_plugin.domain.resources import CPUS
from slurm_rl_plugin.domain.share_tree import ROOT, UNKNOWN, Association
from slurm_rl_plugin.domain.sort_formula import used_each_second
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import DAY
from slurm_rl_plugin.whole_file import read_whole

#: Which column of a log has the names that fairshare_entity means.
_COLUMNS = {
    "euser": OF_USERS,
    "egroup": OF_ACCOUNTS,
    "Account_Name": OF_ACCOUNTS,
    "queue": OF_QUEUES,
}
#: What pbs_sched takes where a key is not set.
_ENTITY, _USAGE, _KEPT = "euser", "cput", 0.5
_WHOLE = re.compile(r"[+-]?\d{1,9}", re.ASCII)
_BY_PERCENT = {"high": "fairshare_perc", "low": "-fairshare_perc"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShareFiles:
    """What the scheduler's files say of fair share.

    Attributes:
        associations: the tree, groups as accounts and entities as users below them; empty where it
            is not known.
        entity: which column of a log has their names, see `Machine.entity`; "" without a tree.
        usage: what a second of a job adds to usage, weights by resource; empty for its CPUs.
        decay_every: seconds between two decays.
        decay_factor: what a decay leaves.
        sorts_by_usage: `fair_share` is on.
        sort_key: the formula that is the first job_sort_key, of fair_share_perc alone.
        notes: what of it is not modelled, each one sentence.
    """

    associations: tuple[Association, ...] = ()
    entity: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    decay_every: float = DAY
    decay_factor: float = _KEPT
    sorts_by_usage: bool = False
    sort_key: str = ""
    notes: tuple[str, ...] = ()


def read_fair_share(folder: Path) -> FairShareFiles:
    """Read sched_config and resource_group; what cannot be read or modelled becomes a sentence.

    Args:
        folder: `sched_priv`, which only root may enter unless the site lets others.
    """
    try:
        config = read_sched_config(folder / "sched_config")
    except OSError as error:
        what = f"sched_config cannot be read ({error.strerror}): accounts have the log's shares, "
        return FairShareFiles(notes=(f"{what}usage decays by half each day, as it is shipped.",))
    notes = list(_notes(config))
    associations, entity = _tree(folder / "resource_group", config, notes)
    return FairShareFiles(
        associations=associations,
        entity=entity,
        usage=_usage(config, notes, is_used=config.ever("fair_share") or len(associations) > 1),
        decay_every=_decay_every(config),
        decay_factor=_decay_factor(config),
        sorts_by_usage=config.ever("fair_share"),
        sort_key=_sort_key(config, notes),
        notes=tuple(notes),
    )


def parse_tree(text: str, unknown_shares: int) -> tuple[Association, ...]:
    """The tree of resource_group; lines that pbs_sched refuses are passed over.

    Args:
        text: lines of name, number of the group, group above and shares.
        unknown_shares: of the group of all entities that no line names.
    """
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
    said = config.text("fairshare_entity") or _ENTITY
    if said not in _COLUMNS:
        notes.append(f"fairshare_entity {said}: no log has it, so accounts have the log's shares.")
        return (), ""
    if said == "egroup":
        notes.append(
            "fairshare_entity egroup: the entity of a job is the account in the log, which is its "
            "group only where it names neither an account nor a project."
        )
    try:
        text = read_whole(path).decode(errors="replace")
    except OSError as error:
        what = f"{path.name} cannot be read ({error.strerror})"
        notes.append(f"{what}: accounts have the log's shares.")
        return (), ""
    shares = config.text("unknown_shares")
    unknown = max(int(shares), 0) if _WHOLE.fullmatch(shares) else 0
    return parse_tree(text, unknown), _COLUMNS[said]


def _usage(config: SchedConfig, notes: list[str], *, is_used: bool) -> dict[str, float]:
    formula = config.text("fairshare_usage_res") or _USAGE
    try:
        found = used_each_second(formula)
    except ConfigurationError as error:
        notes.append(f"{error} Replays count ncpus * walltime.")
        return {}
    if is_used and re.search(r"\bcput\b", formula):
        notes.append(f"fairshare_usage_res {formula}: jobs are taken to use all of their CPUs.")
    return {} if found == {CPUS: 1.0} else found


def _decay_every(config: SchedConfig) -> float:
    seconds = parse_duration(config.text("fairshare_decay_time") or config.text("half_life"))
    return seconds if seconds >= 1.0 and math.isfinite(seconds) else DAY


def _decay_factor(config: SchedConfig) -> float:
    try:
        factor = float(config.text("fairshare_decay_factor"))
    except ValueError:
        return _KEPT
    return factor if 0.0 < factor < 1.0 else _KEPT


def _sort_key(config: SchedConfig, notes: list[str]) -> str:
    """The formula that sorts as the first job_sort_key does; "" where it is another one."""
    said = config.text(SORT_KEY)
    name, _, way = said.partition(" ")
    if name == "fair_share_perc" and way.strip().lower() in _BY_PERCENT:
        return _BY_PERCENT[way.strip().lower()]
    if said:
        notes.append(f"{SORT_KEY} {said}: not modelled; jobs that it sorts go as they came.")
    return ""


def _notes(config: SchedConfig) -> Iterator[str]:
    if config.ever("fair_share"):
        if not config.always("fair_share"):
            yield "fair_share is on in one of prime time and the rest; here it is on always."
        yield (
            "fair_share: entities without shares start here too, and jobs of entities that have "
            "used nothing yet go as they came."
        )
