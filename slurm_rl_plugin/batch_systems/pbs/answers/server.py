"""Settings of PBS's server and schedulers, and the formula by which they sort."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
)
from slurm_rl_plugin.errors import ConfigurationError

QSTAT_SERVER = ("qstat", "-B", "-f", "-F", "json")
#: States in which the daemon must not write to the server.
_AWAY = ("Hot", "Terminating", "Initializing", "Stopping", "Down")
_SETUP = "as root run what `slurm-rl pbs-setup --print` prints"


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
            return f"PBS's job_sort_formula does not contain {SCORE}: {_SETUP}"
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
            return (
                f"scheduler {self.name} has a job_sort_formula_threshold, and a job at or below it "
                f"never runs: qmgr -c 'unset sched {self.name} job_sort_formula_threshold'"
            )
        if self.formula == ours != "":
            return (
                f"scheduler {self.name} has the server's job_sort_formula as its own, which the "
                f"dead-man hook cannot remove: qmgr -c 'unset sched {self.name} "
                "job_sort_formula'"
            )
        if self.formula:
            return (
                f"scheduler {self.name} has a job_sort_formula of its own that is not the "
                f"server's: {_SETUP}"
            )
        return None


def read_schedulers(read: Callable[[Sequence[str]], str]) -> tuple[PbsScheduler, ...]:
    """Every scheduler."""
    return parse_schedulers(read(LIST_SCHEDULERS))


def parse_schedulers(words: str) -> tuple[PbsScheduler, ...]:
    """Every scheduler of an answer; qmgr continues a long value in an indented line."""
    parts = re.split(r"^Sched (\S+)\s*$", re.sub(r"\n\t+", "", words), flags=re.MULTILINE)
    found = []
    for name, lines in zip(parts[1::2], parts[2::2], strict=True):
        values = dict(re.findall(r"^\s+(\w+) = (.*?)\s*$", lines, re.MULTILINE))
        threshold = parse_score(values.get("job_sort_formula_threshold"))
        found.append(PbsScheduler(name, values.get("job_sort_formula", ""), threshold))
    return tuple(found)


def harm_of(schedulers: Iterable[PbsScheduler], ours: str) -> str | None:
    """The first harm of these schedulers."""
    return next((harm for each in schedulers if (harm := each.harm(ours)) is not None), None)


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
        harm = harm_of(read_schedulers(self._commands.read), ours)
        for name, queue in queues.items():
            if harm is None and SCORE in resources_of(queue, "resources_default"):
                harm = (  # PBS would set a removed score to the queue's default
                    f"queue {name} has resources_default.{SCORE}, so scores could not be removed: "
                    f"qmgr -c 'unset queue {name} resources_default.{SCORE}'"
                )
        self._sound = (now, ours) if harm is None else (-math.inf, "")
        return harm
