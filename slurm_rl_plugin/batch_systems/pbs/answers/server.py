"""What PBS says of its server and schedulers, and the formula by which they sort."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slurm_rl_plugin.batch_systems.pbs.answers.fields import (
    SCORE,
    parse_count,
    parse_score,
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
#: States in which the server is not well enough to be bothered.
_AWAY = ("Hot", "Terminating", "Initializing", "Stopping", "Down")
_SETUP = "as root run what `slurm-rl pbs-setup --print` prints"


@dataclass(frozen=True, slots=True, kw_only=True)
class PbsServer:
    """The server's attributes that the adapter uses."""

    release: str  #: of PBS
    state: str  #: `Active`, `Scheduling`, `Idle` or worse
    formula: str  #: by which jobs are sorted; "" for none
    default_score: float | None  #: of jobs that carry none of their own; None where there is none
    keeps_history: bool  #: whether jobs that ended can be asked for
    scheduling: bool  #: whether jobs are started at all
    counts_eligible_time: bool  #: whether holds and own limits do not count in a job's wait
    counts: tuple[int, ...]  #: jobs in each state, and all ever seen

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
    """The one server of an answer."""
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


LIST_SCHEDULERS = ("qmgr", "-c", "list sched")


@dataclass(frozen=True, slots=True, kw_only=True)
class PbsScheduler:
    """One scheduler of the server."""

    name: str  #: `default` for the first
    formula: str  #: by which it sorts where the server has none; "" for none
    threshold: float | None  #: at or below which no job runs; None where unset

    def harm(self, ours: str) -> str | None:
        """Why a score would do nothing, or worse; None where it works."""
        if self.threshold is not None:
            return (
                f"scheduler {self.name} has a job_sort_formula_threshold, and a job at or below it "
                f"never runs: qmgr -c 'unset sched {self.name} job_sort_formula_threshold'"
            )
        if self.formula == ours != "":
            return (
                f"scheduler {self.name} has the server's job_sort_formula as its own, which the "
                f"dead-man hook cannot take back: qmgr -c 'unset sched {self.name} "
                "job_sort_formula'"
            )
        if self.formula:
            return (
                f"scheduler {self.name} has a job_sort_formula of its own that is not the "
                "server's: as root run what `slurm-rl pbs-setup --print` prints"
            )
        return None


def read_schedulers(read: Callable[[Sequence[str]], str]) -> tuple[PbsScheduler, ...]:
    """Every scheduler; raises what `read` does."""
    return parse_schedulers(read(LIST_SCHEDULERS))


def parse_schedulers(words: str) -> tuple[PbsScheduler, ...]:
    """Every scheduler of an answer; qmgr goes on with a long value in a line that is indented."""
    parts = re.split(r"^Sched (\S+)\s*$", re.sub(r"\n\t+", "", words), flags=re.MULTILINE)
    return tuple(_scheduler(*pair) for pair in zip(parts[1::2], parts[2::2], strict=True))


def harm_of(schedulers: Iterable[PbsScheduler], ours: str) -> str | None:
    """What the first says that would do harm; see `PbsScheduler.harm`."""
    found = (each.harm(ours) for each in schedulers)
    return next((harm for harm in found if harm is not None), None)


def _scheduler(name: str, lines: str) -> PbsScheduler:
    told = dict(re.findall(r"^\s+(\w+) = (.*?)\s*$", lines, re.MULTILINE))
    threshold = parse_score(told.get("job_sort_formula_threshold"))
    return PbsScheduler(name=name, formula=told.get("job_sort_formula", ""), threshold=threshold)


#: What one point of the score is worth in the formula; the site's own terms decide below it.
WEIGHT = 1000
#: Keeps the order of its argument, and stays below 500 for whatever is below 1e217: PBS evaluates a
#: formula as Python with all of `math`.
_BOUND = "asinh"


def formula_with(site: str) -> str:
    """Our score, and the site's terms for jobs of one score; "" for none."""
    return f"{WEIGHT}*{SCORE} + {_BOUND}({site})" if site else SCORE


def is_bounded(formula: str) -> bool:
    """Whether what stands beside our score in it can never overrule one point of the score."""
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
    """What one point of the score is worth in a term; 0 where it is not the score alone."""
    match node:
        case ast.Name(name) if name == SCORE:
            return 1.0
        case ast.BinOp(ast.Constant(int() | float() as weight), ast.Mult(), ast.Name(name)):
            return weight if name == SCORE else 0.0
        case _:
            return 0.0


def without_ours(formula: str) -> str:
    """The terms of a formula that we have extended already, also as before, and of any other."""
    formula = formula.strip()
    ours = re.fullmatch(rf"(?:{WEIGHT}\*)?{SCORE}(?: \+ (?:{_BOUND})?\((.*)\))?", formula)
    site = (ours[1] or "") if ours else formula
    if re.search(rf"\b{SCORE}\b", site) or '"' in site:
        raise ConfigurationError(
            f"the formula {formula!r} cannot be taken apart: give the site's own terms with "
            f"--formula, without {SCORE} and without double quotes."
        )
    return site


#: While nothing is wrong two calls a minute are enough for what only an administrator changes.
SECONDS_BETWEEN_LOOKS = 60.0


class SortSettings:
    """Asks schedulers and queues; once a minute while nothing is wrong, else each time."""

    def __init__(self, commands: PbsCommands, clock: Callable[[], float]) -> None:
        self._commands = commands
        self._clock = clock
        self._sound = (-math.inf, "")  #: when nothing was wrong, and beside which formula

    def harm(self, ours: str) -> str | None:
        """Why a score would do nothing, or worse; None where it works."""
        now = self._clock()
        then, formula = self._sound
        if formula == ours and 0.0 <= now - then < SECONDS_BETWEEN_LOOKS:
            return None
        queues = section(self._commands.read_json(QSTAT_QUEUES), "Queue")
        harm = harm_of(read_schedulers(self._commands.read), ours) or _queue_default(queues)
        self._sound = (now, ours) if harm is None else (-math.inf, "")
        return harm


def _queue_default(queues: Mapping[str, Mapping[str, Any]]) -> str | None:
    """A score that is taken away would come back: PBS gives a queue's default first."""
    for name, queue in queues.items():
        defaults = queue.get("resources_default")
        if isinstance(defaults, dict) and SCORE in defaults:
            return (
                f"queue {name} has resources_default.{SCORE}, so none could be taken away: "
                f"qmgr -c 'unset queue {name} resources_default.{SCORE}'"
            )
    return None
