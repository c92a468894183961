"""What prepares a PBS server: lines to run, and how to undo each."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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
from slurm_rl_plugin.whole_file import read_whole

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
    settings = {"heartbeat": str(heartbeat), "stale_seconds": STALE_SECONDS, "formula": formula}
    values = {
        "score": SCORE,
        "default": DEFAULT_SCORE,
        "user": user,
        "hooks": hooks,
        "class_hook": CLASS_HOOK,
        "dead_man_hook": DEAD_MAN_HOOK,
        "stale": STALE_SECONDS,
        "settings": shlex.quote(json.dumps(settings)),
    }
    told = tomllib.loads(read_whole(Path(__file__).with_name("setup.toml")).decode())["step"]
    return [
        *(_step(each, values) for each in told if user or "where" not in each),
        _formula(formula, {_SERVER: formula} if stood is None else stood),
    ]


def _step(told: Mapping[str, Any], values: Mapping[str, object]) -> Step:
    lines, undo = (tuple(_line(each % values) for each in told[name]) for name in ("lines", "undo"))
    return Step(told["does"] % values, lines, undo)


def _line(line: str) -> str:
    """A line for a shell; see `setup.toml`."""
    found = re.fullmatch(r"qmgr (?!-)(.*?)(  #.*)?", line)
    return _qmgr(found[1]) + (found[2] or "") if found else line


def _qmgr(command: str) -> str:
    return f"qmgr -c {shlex.quote(command)}"


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
