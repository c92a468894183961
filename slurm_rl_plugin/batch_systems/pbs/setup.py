"""Shell lines that prepare a PBS server, lines that undo them, and checks of `slurm-rl check`."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from slurm_rl_plugin.batch_systems.pbs.answers.fair_share import read_sched_config, sched_folder
from slurm_rl_plugin.batch_systems.pbs.answers.fields import SCORE
from slurm_rl_plugin.batch_systems.pbs.answers.server import (
    LIST_SCHEDULERS,
    QSTAT_SERVER,
    PbsScheduler,
    PbsServer,
    formula_with,
    is_bounded,
    parse_schedulers,
    parse_server,
    without_ours,
)
from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands
from slurm_rl_plugin.batch_systems.port import Check
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError
from slurm_rl_plugin.whole_file import read_whole

_SERVER = "server"
#: Score of a job that has no score by its class or by the daemon.
DEFAULT_SCORE = 1000
#: As WatchdogSec of the daemon's unit: a cycle gives no sign of life, and may take minutes.
STALE_SECONDS = 300


class Step(NamedTuple):
    """Lines to run, what they do, and the lines that undo them."""

    does: str
    lines: tuple[str, ...]
    undo: tuple[str, ...]


def heartbeat_file(state_file: Path) -> Path:
    """The file, in the state file's folder, by which PBS's dead-man hook sees that we live."""
    return state_file.with_name("heartbeat")


class SiteFormula(NamedTuple):
    """The site's own terms without ours, their origin, and the former formulas."""

    terms: str
    origin: str
    former: dict[str, str]  #: `server` or `sched NAME` -> its formula; "" for none


def setup_steps(
    formula: str,
    heartbeat: Path,
    user: str | None,
    hooks: Path,
    former: Mapping[str, str] | None = None,
) -> list[Step]:
    """Every step in order."""
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
    steps = tomllib.loads(read_whole(Path(__file__).with_name("setup.toml")).decode())["step"]
    return [
        *(_step(each, values) for each in steps if user or "where" not in each),
        _formula(formula, {_SERVER: formula} if former is None else former),
    ]


def _step(step: Mapping[str, Any], values: Mapping[str, object]) -> Step:
    lines, undo = (tuple(_line(each % values) for each in step[name]) for name in ("lines", "undo"))
    return Step(step["does"] % values, lines, undo)


def _line(line: str) -> str:
    found = re.fullmatch(r"qmgr (?!-)(.*?)(  #.*)?", line)
    return _qmgr(found[1]) + (found[2] or "") if found else line


def _qmgr(command: str) -> str:
    return f"qmgr -c {shlex.quote(command)}"


def _formula(formula: str, former: Mapping[str, str]) -> Step:
    """Set the server's formula and no other: PBS refuses different ones of a scheduler."""
    own = tuple(_qmgr(f"unset {whose} job_sort_formula") for whose in former if whose != _SERVER)
    undo = tuple(
        _qmgr(_setting(whose, each)) for whose, each in former.items() if each or whose == _SERVER
    )
    return Step(
        "Brings the scores into force, at once and in shadow mode too. The site's own terms decide "
        "between jobs with equal scores: asinh keeps their order and bounds them, so that they "
        "outweigh no score. Some releases before 22.05 do not restart while a formula "
        "is set (openpbs issue 2530): restart pbs_server once when the site can afford it. Leave "
        "job_sort_formula_threshold of the schedulers unset: a job at or below it never runs.",
        (*own, _qmgr(f'set server job_sort_formula = "{formula_with(formula)}"')),
        undo,
    )


def _setting(whose: str, formula: str) -> str:
    if not formula:
        return f"unset {whose} job_sort_formula"
    quoted = formula.replace('"', "'")  # equal in Python; qmgr takes no quotes within its own
    return f'set {whose} job_sort_formula = "{quoted}"'


def site_formula(given: str | None) -> SiteFormula:
    """The site's formula, as given or as PBS has it."""
    commands = PbsCommands(timeout=10.0)
    server, schedulers = "", list[PbsScheduler]()
    try:
        server = parse_server(commands.read_json(QSTAT_SERVER)).formula
        schedulers = [
            each for each in parse_schedulers(commands.read(LIST_SCHEDULERS)) if each.formula
        ]
    except BatchSystemError as error:
        if given is None:
            origin = f"No terms of the site are kept, since PBS does not answer ({error})."
            return SiteFormula("", origin, {_SERVER: ""})
        server, schedulers = "", []
    if given is not None:
        terms, origin = without_ours(given), "The site's own terms are those of --formula."
    else:  # each scheduler sorts by its own formula if the server has none
        found = [server] if server else sorted({each.formula for each in schedulers})
        if len(found) > 1:
            raise ConfigurationError(
                f"schedulers have different formulas ({'; '.join(found)}): with --formula, give "
                "the one that decides between jobs with equal scores."
            )
        terms = without_ours(found[0]) if found else ""
        origin = f"The site's own terms now: {terms or 'none'}."
    on_server = terms if server or not schedulers else ""  # unless only schedulers had a formula
    of_schedulers = {f"sched {each.name}": _site_terms(each.formula) for each in schedulers}
    return SiteFormula(terms, origin, {_SERVER: on_server} | of_schedulers)


def _site_terms(formula: str) -> str:
    """A scheduler's own terms without ours; the formula if they cannot be found."""
    try:
        return without_ours(formula)
    except ConfigurationError:
        return formula


#: Releases before this one do not start again while a formula is set (openpbs 2530, 2475).
FIRST_THAT_RESTARTS = (22, 5)
DEAD_MAN_HOOK, CLASS_HOOK = "slurm_rl_dead_man", "slurm_rl_class"
#: A hook of `list hook`: its name, and the indented lines of its attributes.
_HOOK = re.compile(r"^Hook (\S+)[^\n]*((?:\n[ \t]+[^\n]*)*)", re.MULTILINE)
_IS_OFF = re.compile(r"^\s*enabled = false\s*$", re.MULTILINE | re.IGNORECASE)


@cache
def _checks() -> dict[str, dict[str, str]]:
    return tomllib.loads(read_whole(Path(__file__).with_name("checks.toml")).decode())


def _check(finding: str, **words: object) -> Check:
    """The check of a finding in checks.toml."""
    found = _checks()[finding]
    return Check(found["result"], found["name"], found["what"].format(**words))


def pbs_checks(commands: PbsCommands, server: PbsServer) -> Iterator[Check]:
    """Every check of a site with PBS."""
    yield _resource(commands)
    yield _check("default score" if server.base > 0 else "no default score", base=server.base)
    yield _check("formula" if is_bounded(server.formula) else "formula without a bound")
    numbers = tuple(int(each) for each in re.findall(r"\d+", server.release)[:2])
    restarts = len(numbers) == 2 and numbers >= FIRST_THAT_RESTARTS
    yield _check("restart" if restarts else "restart that fails", release=server.release)
    yield from _scheduler_checks(sched_folder(commands) / "sched_config")
    yield _dead_man(commands)
    for holds, finding in (
        (server.scheduling, "scheduling is off"),
        (server.counts_eligible_time, "eligible time is off"),
        (server.keeps_history, "no job history"),
    ):
        if not holds:
            yield _check(finding)


def _resource(commands: PbsCommands) -> Check:
    try:
        words = commands.read(["qmgr", "-c", f"list resource {SCORE}"])
    except BatchSystemError as error:
        return _check("no resource", error=error)
    found = dict(re.findall(r"^\s*(type|flag) = (\S+)", words, re.MULTILINE))
    flags = found.get("flag", "")
    if found.get("type") not in ("float", "long"):
        return _check("resource of another type", type=found.get("type"))
    if "i" not in flags and "r" not in flags:
        return _check("resource that users can set", flags=flags)
    return _check("resource" if "i" in flags else "resource that users can see")


def _dead_man(commands: PbsCommands) -> Check:
    """Whether the hook exists; PBS does not show hooks to an operator."""
    try:
        answer = commands.call(["qmgr", "-c", "list hook"])
        words = "" if not (answer.status or answer.errors) else (answer.errors or answer.output)
        hooks = dict(_HOOK.findall(answer.output))
    except BatchSystemError as error:
        words, hooks = str(error), {}
    if _IS_OFF.search(hooks.get(DEAD_MAN_HOOK, "")):
        return _check("dead man that is off")
    if DEAD_MAN_HOOK in hooks:
        return _check("dead man")
    if words.strip():
        first = words.strip().splitlines()[0].rstrip(".")
        return _check("dead man that an operator cannot see", error=first)
    return _check("no dead man")


def _scheduler_checks(path: Path) -> Iterator[Check]:
    """Every check of sched_config, which only root may read by default.

    With by_queue queues go before the formula; without strict_ordering any job that fits starts,
    also before the first one.
    """
    try:
        config = read_sched_config(path)
    except OSError as error:
        yield _check("sched_config cannot be read", path=path, error=error.strerror)
        return
    on = [name for name in ("by_queue", "round_robin") if config.ever(name)]
    yield _check("by_queue is on" if on else "by_queue", on=" and ".join(on), path=path)
    strict = config.always("strict_ordering")
    yield _check("strict_ordering" if strict else "strict_ordering is off", path=path)
