"""The table of class defaults in the words of job_submit.lua: rules, how long it is good, a factor.

slurmctld's script ignores an old table, so that nothing stands for a daemon that died.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_rl_plugin.batch_systems.kind import LimitKeys
from slurm_rl_plugin.batch_systems.port import ClassDefault
from slurm_rl_plugin.batch_systems.slurm.batch_limit.licenses import LICENSES
from slurm_rl_plugin.batch_systems.slurm.batch_limit.qos import QOS
from slurm_rl_plugin.batch_systems.slurm.class_defaults.table_file import (
    empty_table,
    may_have_given,
    void_table,
    write_table,
)
from slurm_rl_plugin.batch_systems.slurm.levers.site_factor import SiteFactorLever
from slurm_rl_plugin.domain.job_class import JobClassRule

#: Of a rule, what the script cannot know of a job that is just being submitted.
_UNTOLD = ("name", "account", "user")
#: Of jobs that the script cannot tell the class of: it gives them nothing.
_UNKNOWN = "unknown"
#: Names that would break a line of the table.
_PLAIN = re.compile(r"[^\s,=]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LuaTable:
    """The table that job_submit.lua reads, in Lua's own words.

    Attributes:
        path: of the file.
        rules: of the job classes, the first match decides.
        life: seconds for which the table is good.
        more: further lines, such as the QOS of batch jobs.
    """

    path: Path
    rules: Sequence[JobClassRule] = ()
    life: float = 120.0
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def lever(self) -> str:
        """The script sets a job's SiteFactor."""
        return SiteFactorLever.name

    def write(self, default: ClassDefault) -> None:
        """Write what a new interactive job gets, good for `life` seconds, in place."""
        write_table(self.path, list(self._lines(default)))

    def void(self) -> None:
        """Let the script give nothing more, though what it gave may still stand."""
        void_table(self.path)

    def empty(self) -> None:
        """Leave no sign that the table has ever given anything."""
        empty_table(self.path)

    def may_have_given(self) -> bool:
        """Whether a job may carry what the script gave it, as far as the file tells."""
        return may_have_given(self.path)

    def _lines(self, default: ClassDefault) -> Iterator[str]:
        yield f"from {math.floor(default.now)}"
        yield f"until {math.ceil(default.now + self.life)}"
        yield f"factor {math.floor(default.factor)}"
        for key, value in self.more.items():
            yield f"{key} {value}"
        for rule in told_rules(self.rules, default.partitions, default.qos):
            yield f"rule {rule}"
        yield "end"


def lua_table(path: Path, rules: Sequence[JobClassRule], life: float, limit: LimitKeys) -> LuaTable:
    """The table at a path; see `LuaTable`.

    Args:
        path: of the file.
        rules: of the job classes.
        life: seconds.
        limit: what the script gives batch jobs, so that a limit finds them.
    """
    more = {}
    if limit.mechanism == QOS:
        more = {"batch_qos": limit.qos}
    elif limit.mechanism == LICENSES:
        more = {"batch_license": limit.license}
    return LuaTable(path=path, rules=rules, life=life, more=more)


def told_rules(
    rules: Iterable[JobClassRule], partitions: Sequence[str], qos: Sequence[str]
) -> Iterator[str]:
    """The rules in words of the script, as far as it can tell them.

    Patterns become the names that the cluster is known to have. A rule by job name, account or user
    cannot be told: an interactive one is left out, so that its jobs wait for the next cycle, and no
    job behind it is known to be batch; a batch one ends the list, since the rules behind it might
    call its jobs interactive. Then nothing is known of the jobs that no rule before it finds.
    """
    left_out = False
    for rule in rules:
        if any(getattr(rule, name) is not None for name in _UNTOLD):
            left_out = True
            if rule.job_class == "batch":
                break
            continue
        words = [_UNKNOWN if left_out and rule.job_class == "batch" else rule.job_class]
        for key, pattern, names in (
            ("partition", rule.partition, partitions),
            ("qos", rule.qos, qos),
        ):
            if pattern is not None:
                words.append(f"{key}={','.join(_names_like(pattern, names)) or '='}")
        if rule.time_limit_at_most is not None:
            words.append(f"time_limit_at_most={rule.time_limit_at_most:.0f}")
        if rule.no_batch_script is not None:
            words.append(f"no_batch_script={'yes' if rule.no_batch_script else 'no'}")
        yield " ".join(words)
    if left_out:
        yield _UNKNOWN


def _names_like(pattern: str, names: Sequence[str]) -> list[str]:
    """Known names that a pattern finds, and the one that it spells out."""
    known = {*names, *re.findall(r"^\^([\w.-]+)\$$", pattern)}
    return sorted(n for n in known if _PLAIN.fullmatch(n) and re.search(pattern, n))
