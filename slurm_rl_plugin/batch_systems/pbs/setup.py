"""What prepares a PBS server: lines to run, and how to undo each."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from slurm_rl_plugin.batch_systems.pbs.answers.fields import SCORE
from slurm_rl_plugin.batch_systems.pbs.answers.server import (
    QSTAT_SERVER,
    PbsScheduler,
    formula_with,
    parse_server,
    read_schedulers,
    without_ours,
)
from slurm_rl_plugin.batch_systems.pbs.checks import CLASS_HOOK, DEAD_MAN_HOOK
from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError

_SERVER = "server"
#: Score of a job that neither a class nor the daemon has placed.
DEFAULT_SCORE = 1000
#: As WatchdogSec of the daemon's unit: no sign of life comes during a cycle, which may take minutes.
STALE_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Step:
    """Lines to run, what they do, and the lines that undo them."""

    does: str
    lines: tuple[str, ...]
    undo: tuple[str, ...]


def heartbeat_file(state_file: Path) -> Path:
    """Where PBS's dead-man hook looks for our sign of life, beside the state file."""
    return state_file.with_name("heartbeat")


class SiteFormula(NamedTuple):
    """The site's own terms without ours, who told them, and what stood where before."""

    terms: str
    whence: str
    stood: dict[str, str]  #: by whose attribute it is, `server` or `sched NAME`; "" for none


def setup_steps(
    formula: str,
    heartbeat: Path,
    user: str | None,
    hooks: Path,
    stood: Mapping[str, str] | None = None,
) -> list[Step]:
    """Every step in the order in which it is run."""
    return [
        _resource(),
        _default_score(),
        *([_operator(user)] if user else []),
        _by_queue(),
        _class_hook(str(hooks / CLASS_HOOK)),
        _dead_man_hook(formula, heartbeat, hooks / f"{DEAD_MAN_HOOK}.py"),
        _formula(formula, {_SERVER: formula} if stood is None else stood),
    ]


def _qmgr(command: str) -> str:
    return f"qmgr -c {shlex.quote(command)}"


def _resource() -> Step:
    return Step(
        "The resource that holds our order; flag i: users can neither see nor set it.",
        (_qmgr(f"create resource {SCORE} type=float,flag=i"),),
        (_qmgr(f"delete resource {SCORE}") + "  # once no job has it, past ones too",),
    )


def _default_score() -> Step:
    return Step(
        "The score of new jobs until a cycle places them: behind those that are placed. Above 0, "
        "since jobs without a score stand behind all others.",
        (_qmgr(f"set server resources_default.{SCORE} = {DEFAULT_SCORE}"),),
        (_qmgr(f"unset server resources_default.{SCORE}"),),
    )


def _operator(user: str) -> Step:
    return Step(
        "The daemon's user may change scores.",
        (_qmgr(f"set server operators += {user}"),),
        (
            _qmgr(f"set server operators -= {user}")
            + "  # the only one: unset server operators, or a restart of PBS brings it back",
        ),
    )


def _by_queue() -> Step:
    config = "$PBS_HOME/sched_priv/sched_config"
    ours = "by_queue: False ALL"
    # the line of before stays as a comment: one that said False already must not become True
    off = rf"s/^by_queue:.*[Tt][Rr][Uu][Ee].*/# slurm-rl had &\n{ours}/"
    on = rf"/^# slurm-rl had by_queue:/{{N;s/^# slurm-rl had (.*)\n{ours}$/\1/}}"
    return Step(
        "One order over all queues; leave this out where a queue's Priority must go first.",
        (f'. /etc/pbs.conf; sed -i "{off}" "{config}" && pkill -HUP -x pbs_sched',),
        (f'. /etc/pbs.conf; sed -i -E "{on}" "{config}" && pkill -HUP -x pbs_sched',),
    )


def _class_hook(file: str) -> Step:
    return Step(
        "New jobs get the score of their class, by the rules of the .json file; optional. It acts "
        "at once, in shadow mode too.",
        (
            _qmgr(f"create hook {CLASS_HOOK} event=queuejob,alarm=5"),
            _qmgr(f"import hook {CLASS_HOOK} application/x-python default {file}.py"),
            _qmgr(f"import hook {CLASS_HOOK} application/x-config default {file}.json"),
        ),
        (_qmgr(f"delete hook {CLASS_HOOK}"),),
    )


def _dead_man_hook(formula: str, heartbeat: Path, program: Path) -> Step:
    settings = {"heartbeat": str(heartbeat), "stale_seconds": STALE_SECONDS, "formula": formula}
    return Step(
        f"When the daemon has been silent for {STALE_SECONDS} s the formula of before comes back; "
        "root must set ours again then.",
        (
            f'config=$(mktemp) && echo {shlex.quote(json.dumps(settings))} > "$config"',
            _qmgr(f"create hook {DEAD_MAN_HOOK} event=periodic,freq=5,alarm=30"),
            _qmgr(f"import hook {DEAD_MAN_HOOK} application/x-python default {program}"),
            f'qmgr -c "import hook {DEAD_MAN_HOOK} application/x-config default $config"',
        ),
        (_qmgr(f"delete hook {DEAD_MAN_HOOK}"),),
    )


def _formula(formula: str, stood: Mapping[str, str]) -> Step:
    """PBS takes none of the server beside another one of a scheduler, nor the reverse."""
    own = tuple(_qmgr(f"unset {whose} job_sort_formula") for whose in stood if whose != _SERVER)
    back = tuple(
        _qmgr(_setting(whose, each)) for whose, each in stood.items() if each or whose == _SERVER
    )
    return Step(
        "The scores come into force, at once and in shadow mode too. The site's own terms decide "
        "between jobs of one score alone: asinh keeps their order and bounds them, so that they "
        "overrule no score. Some releases before 22.05 do not start again while a formula "
        "is set (openpbs issue 2530): restart pbs_server once when the site can stand it. Leave "
        "job_sort_formula_threshold of the schedulers unset: a job at or below it never runs.",
        (
            *own,
            _qmgr(f'set server job_sort_formula = "{formula_with(formula)}"'),
        ),
        back,
    )


def _setting(whose: str, formula: str) -> str:
    if not formula:
        return f"unset {whose} job_sort_formula"
    quoted = formula.replace('"', "'")  # alike in Python, and qmgr takes no quotes within its own
    return f'set {whose} job_sort_formula = "{quoted}"'


def site_formula(given: str | None) -> SiteFormula:
    """The formula of before, as given or as PBS tells it."""
    commands = PbsCommands(timeout=10.0)
    try:
        told = parse_server(commands.read_json(QSTAT_SERVER)).formula
        schedulers = [each for each in read_schedulers(commands.read) if each.formula]
    except BatchSystemError as error:
        whence = f"No terms of the site are kept, since PBS does not answer ({error})."
        return _as_given(given, "", ()) or SiteFormula("", whence, {_SERVER: ""})
    return _as_given(given, told, schedulers) or _as_told(told, schedulers)


def _as_given(
    given: str | None, server: str, schedulers: Sequence[PbsScheduler]
) -> SiteFormula | None:
    if given is None:
        return None
    terms = without_ours(given)
    whence = "The site's own terms are those of --formula."
    return SiteFormula(terms, whence, _stood(terms, server, schedulers))


def _stood(terms: str, server: str, schedulers: Sequence[PbsScheduler]) -> dict[str, str]:
    """What stood where; the server's are the terms unless schedulers alone had a formula."""
    on_server = terms if server or not schedulers else ""
    return {_SERVER: on_server} | {
        f"sched {each.name}": _if_apart(each.formula) for each in schedulers
    }


def _if_apart(formula: str) -> str:
    """A scheduler's own terms without ours; as they stand where they cannot be taken apart."""
    try:
        return without_ours(formula)
    except ConfigurationError:
        return formula


def _as_told(server: str, schedulers: Sequence[PbsScheduler]) -> SiteFormula:
    """By the server's formula; where it has none each scheduler sorts by its own."""
    found = [server] if server else sorted({each.formula for each in schedulers})
    if len(found) > 1:
        raise ConfigurationError(
            f"schedulers have different formulas ({'; '.join(found)}): give the one that is to "
            "decide between jobs of one score with --formula."
        )
    terms = without_ours(found[0]) if found else ""
    whence = f"The site's own terms now: {terms or 'none'}."
    return SiteFormula(terms, whence, _stood(terms, server, schedulers))
