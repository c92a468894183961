"""Checks of `slurm-rl check` for PBS alone: resource, formula, hooks, scheduler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from slurm_rl_plugin.batch_systems.pbs.answers.fair_share import (
    SchedConfig,
    read_sched_config,
    sched_folder,
)
from slurm_rl_plugin.batch_systems.pbs.answers.fields import SCORE
from slurm_rl_plugin.batch_systems.pbs.answers.server import PbsServer, is_bounded
from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands
from slurm_rl_plugin.batch_systems.port import PASS, WARN, Check
from slurm_rl_plugin.errors import BatchSystemError

#: Releases before this one do not start again while a formula is set (openpbs 2530, 2475).
FIRST_THAT_RESTARTS = (22, 5)
DEAD_MAN_HOOK, CLASS_HOOK = "slurm_rl_dead_man", "slurm_rl_class"
_SETUP = "see `slurm-rl pbs-setup --print`"
_LIST_HOOKS = ["qmgr", "-c", "list hook"]
#: A hook of `list hook`: its name, and the indented lines of its attributes.
_HOOK = re.compile(r"^Hook (\S+)[^\n]*((?:\n[ \t]+[^\n]*)*)", re.MULTILINE)
_IS_OFF = re.compile(r"^\s*enabled = false\s*$", re.MULTILINE | re.IGNORECASE)
_AS_A_MANAGER = f"`qmgr -c 'list hook {DEAD_MAN_HOOK}'`"


def pbs_checks(commands: PbsCommands, server: PbsServer) -> Iterator[Check]:
    """Every check of a site with PBS."""
    yield _resource(commands)
    yield _default_score(server)
    yield _formula(server.formula)
    yield _restart(server.release)
    yield from scheduler_checks(sched_folder(commands) / "sched_config")
    yield _dead_man(commands)
    if not server.scheduling:
        yield Check("warn", "scheduling", "PBS starts no jobs now: scheduling is False")
    if not server.counts_eligible_time:
        what = (
            "eligible_time_enable is off, so time spent at a user's own limit counts for the "
            "starvation bound: qmgr -c 'set server eligible_time_enable = True'"
        )
        yield Check("warn", "eligible time", what)
    if not server.keeps_history:
        what = "job_history_enable is off: models that learn from ends of jobs do not get them"
        yield Check("warn", "job history", what)


def _resource(commands: PbsCommands) -> Check:
    """Check that the resource is a float that users can neither see nor set."""
    try:
        words = commands.read(["qmgr", "-c", f"list resource {SCORE}"])
    except BatchSystemError as error:
        return Check("fail", "resource", f"there is no {SCORE} ({error}): {_SETUP}")
    found = dict(re.findall(r"^\s*(type|flag) = (\S+)", words, re.MULTILINE))
    flags = found.get("flag", "")
    if found.get("type") not in ("float", "long"):
        return Check("fail", "resource", f"{SCORE} is no float but {found.get('type')}: {_SETUP}")
    if "i" not in flags and "r" not in flags:
        what = f"users can set {SCORE} themselves (flag {flags!r}): set resource {SCORE} flag = i"
        return Check("fail", "resource", what)
    if "i" not in flags:
        return Check("warn", "resource", f"users can see {SCORE}: flag i hides it")
    return Check("pass", "resource", f"{SCORE}: users can neither see nor set it")


def _default_score(server: PbsServer) -> Check:
    if server.base > 0:
        return Check("pass", "default score", f"new jobs have {server.base}")
    what = f"resources_default.{SCORE} is unset: new jobs come after all others until a cycle"
    return Check("warn", "default score", f"{what}; {_SETUP}")


def _formula(formula: str) -> Check:
    """Whether the site's own terms keep the order of scores."""
    if is_bounded(formula):
        return Check("pass", "formula", "no other term can outweigh the score")
    what = (
        f"terms other than {SCORE} in job_sort_formula are not bounded, so they may outweigh "
        f"small differences of scores; {_SETUP}"
    )
    return Check("warn", "formula", what)


def _restart(release: str) -> Check:
    numbers = tuple(int(each) for each in re.findall(r"\d+", release)[:2])
    if len(numbers) == 2 and numbers >= FIRST_THAT_RESTARTS:
        what = f"pbs_server {release} restarts with a formula set; try it once"
        return Check("pass", "restart", what)
    what = (
        f"pbs_server {release} may not restart while job_sort_formula is set (openpbs issue "
        "2530): unset it before each restart, or upgrade"
    )
    return Check("warn", "restart", what)


def _dead_man(commands: PbsCommands) -> Check:
    """Whether the hook exists; PBS does not show hooks to an operator."""
    try:
        answer = commands.call(_LIST_HOOKS)
        words = "" if not (answer.status or answer.errors) else (answer.errors or answer.output)
        hooks = dict(_HOOK.findall(answer.output))
    except BatchSystemError as error:
        words, hooks = str(error), {}
    if _IS_OFF.search(hooks.get(DEAD_MAN_HOOK, "")):
        on = f"qmgr -c 'set hook {DEAD_MAN_HOOK} enabled = true'"
        return Check("warn", "dead man", f"the hook {DEAD_MAN_HOOK} is not enabled: {on}")
    if DEAD_MAN_HOOK in hooks:
        return Check("pass", "dead man", f"the hook {DEAD_MAN_HOOK} is there")
    if words.strip():
        what = (
            f"an operator cannot see whether the hook {DEAD_MAN_HOOK} is there "
            f"({words.strip().splitlines()[0].rstrip('.')}); ask a manager: {_AS_A_MANAGER}"
        )
        return Check("warn", "dead man", what)
    what = f"no hook {DEAD_MAN_HOOK}: scores of a killed daemon stay in force; {_SETUP}"
    return Check("warn", "dead man", what)


def scheduler_checks(path: Path) -> Iterator[Check]:
    """Every check of the file, which only root may read by default."""
    try:
        config = read_sched_config(path)
    except OSError as error:
        what = (
            f"{path} cannot be read ({error.strerror}): ask root whether it has by_queue False and "
            "strict_ordering true"
        )
        yield Check(WARN, "by_queue", what)
        return
    yield _by_queue(config)
    yield _strict_ordering(config)


def _by_queue(config: SchedConfig) -> Check:
    """Check that by_queue is off, since otherwise queues go before the formula."""
    on = [name for name in ("by_queue", "round_robin") if config.ever(name)]
    if on:
        what = f"{' and '.join(on)} in {config.path}: the score orders only jobs within a queue"
        return Check(WARN, "by_queue", f"{what}; False makes one order of all queues")
    return Check(PASS, "by_queue", "one order over all queues")


def _strict_ordering(config: SchedConfig) -> Check:
    """Check strict_ordering: without it any job that fits starts, also before the first one."""
    if config.always("strict_ordering"):
        return Check(PASS, "strict_ordering", "processors are kept for the first waiting job")
    what = (
        f"strict_ordering is not true at all times in {config.path}: nothing is kept free for the "
        "first job, so a wide one may wait for ever; set `strict_ordering: true ALL` "
        "there and send pbs_sched a HUP"
    )
    return Check(WARN, "strict_ordering", what)
