"""What `qstat -B -f -F json` says of the server: its release, formula, defaults and load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slurm_rl_plugin.batch_systems.pbs.answers.fields import (
    SCORE,
    parse_count,
    parse_score,
    text,
)
from slurm_rl_plugin.batch_systems.pbs.process import not_understood, section

QSTAT_SERVER = ("qstat", "-B", "-f", "-F", "json")
#: States in which the server is not well enough to be bothered.
_AWAY = ("Hot", "Terminating", "Initializing", "Stopping", "Down")
_SETUP = "as root run what `slurm-rl pbs-setup --print` prints"


@dataclass(frozen=True, slots=True, kw_only=True)
class PbsServer:
    """The server's attributes that the adapter uses.

    Attributes:
        release: of PBS.
        state: `Active`, `Scheduling`, `Idle` or worse.
        formula: by which jobs are sorted; "" for none.
        default_score: of jobs that carry none of their own; None where there is none.
        keeps_history: whether jobs that ended can be asked for.
        scheduling: whether jobs are started at all.
        counts_eligible_time: whether a job's wait is counted without holds and limits of its own.
        counts: jobs in each state, and all ever seen.
    """

    release: str
    state: str
    formula: str
    default_score: float | None
    keeps_history: bool
    scheduling: bool
    counts_eligible_time: bool
    counts: tuple[int, ...]

    @property
    def base(self) -> int:
        """The score of a job that we never wrote: 0 where the site has set no default."""
        default = self.default_score
        return round(default) if default is not None and default > 0 else 0

    def harm(self) -> str | None:
        """Why a score would do nothing, or worse; None where it works."""
        if not re.search(rf"\b{SCORE}\b", self.formula):
            return f"PBS's job_sort_formula does not hold {SCORE}: {_SETUP}"
        return None

    def struggles(self) -> str | None:
        """Why the server should be left alone now; None where it is well."""
        if self.state.startswith(_AWAY):
            return f"pbs_server is {self.state}"
        return None


def parse_server(document: Mapping[str, Any]) -> PbsServer:
    """The one server of an answer.

    Raises:
        BatchSystemError: there is none in it.
    """
    servers = section(document, "Server")
    if not servers:
        raise not_understood(" ".join(QSTAT_SERVER), str(dict(document)))
    values = next(iter(servers.values()))
    given = values.get("resources_default")
    defaults = given if isinstance(given, dict) else {}
    return PbsServer(
        release=text(values.get("pbs_version") or document.get("pbs_version")) or "unknown",
        state=text(values.get("server_state")),
        formula=text(values.get("job_sort_formula")),
        default_score=parse_score(defaults.get(SCORE)),
        keeps_history=_is_true(values.get("job_history_enable")),
        scheduling=_is_true(values.get("scheduling")),
        counts_eligible_time=_is_true(values.get("eligible_time_enable")),
        counts=_counts(values),
    )


def _is_true(value: Any) -> bool:
    return text(value).lower() in ("true", "1")


def _counts(values: Mapping[str, Any]) -> tuple[int, ...]:
    """Changes whenever a job comes, starts, ends, is held or released."""
    words = text(values.get("state_count")).split()
    by_state = (parse_count(word.rpartition(":")[2]) for word in words)
    return (parse_count(values.get("total_jobs")), *by_state)
