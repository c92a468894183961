"""What `slurm-rl check` asks of PBS beyond the port: resource, formula, hooks, scheduler."""

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
#: Of `list hook`: the name of one, and the indented lines of its attributes.
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
            "eligible_time_enable is off, so waiting at a limit of the user's own counts for the "
            "starvation bound: qmgr -c 'set server eligible_time_enable = True'"
        )
        yield Check("warn", "eligible time", what)
    if not server.keeps_history:
        what = "job_history_enable is off: when jobs end is not told to models that learn from it"
        yield Check("warn", "job history", what)


def _resource(commands: PbsCommands) -> Check:
    """It must be a float that users can neither see nor set."""
    try:
        words = commands.read(["qmgr", "-c", f"list resource {SCORE}"])
    except BatchSystemError as error:
        return Check("fail", "resource", f"there is no {SCORE} ({error}): {_SETUP}")
    told = dict(re.findall(r"^\s*(type|flag) = (\S+)", words, re.MULTILINE))
    flags = told.get("flag", "")
    if told.get("type") not in ("float", "long"):
        return Check("fail", "resource", f"{SCORE} is no float but {told.get('type')}: {_SETUP}")
    if "i" not in flags and "r" not in flags:
        what = f"users can set {SCORE} themselves (flag {flags!r}): set resource {SCORE} flag = i"
        return Check("fail", "resource", what)
    if "i" not in flags:
        return Check("warn", "resource", f"users can see {SCORE}: flag i hides it")
    return Check("pass", "resource", f"{SCORE}: users can neither see nor set it")


def _default_score(server: PbsServer) -> Check:
    if server.base > 0:
        return Check("pass", "default score", f"new jobs have {server.base}")
    what = f"resources_default.{SCORE} is unset: new jobs stand behind all others until a cycle"
    return Check("warn", "default score", f"{what}; {_SETUP}")


def _formula(formula: str) -> Check:
    """Whether the site's own terms leave the order of scores as it is."""
    if is_bounded(formula):
        return Check("pass", "formula", "nothing beside the score can overrule it")
    what = (
        f"terms beside {SCORE} in job_sort_formula are not bounded, so that they may overrule "
        f"scores that are near each other; {_SETUP}"
    )
    return Check("warn", "formula", what)


def _restart(release: str) -> Check:
    numbers = tuple(int(each) for each in re.findall(r"\d+", release)[:2])
    if len(numbers) == 2 and numbers >= FIRST_THAT_RESTARTS:
        what = f"pbs_server {release} starts again with a formula set; see it once all the same"
        return Check("pass", "restart", what)
    what = (
        f"pbs_server {release} may not start again while job_sort_formula is set (openpbs issue "
        "2530): unset it before each restart, or upgrade"
    )
    return Check("warn", "restart", what)


def _dead_man(commands: PbsCommands) -> Check:
    """Whether the hook is there, as far as this user may see: an operator is shown no hook."""
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
            f"whether the hook {DEAD_MAN_HOOK} is there cannot be seen as an operator "
            f"({words.strip().splitlines()[0].rstrip('.')}); ask a manager: {_AS_A_MANAGER}"
        )
        return Check("warn", "dead man", what)
    what = f"no hook {DEAD_MAN_HOOK}: scores of a daemon that was killed stay in force; {_SETUP}"
    return Check("warn", "dead man", what)


def scheduler_checks(path: Path) -> Iterator[Check]:
    """Every check of the file, which is readable for root only unless the site lets others."""
    try:
        config = read_sched_config(path)
    except OSError as error:
        what = (
            f"{path} cannot be read ({error.strerror}): ask root whether by_queue is False and "
            "strict_ordering true there"
        )
        yield Check(WARN, "by_queue", what)
        return
    yield _by_queue(config)
    yield _strict_ordering(config)


def _by_queue(config: SchedConfig) -> Check:
    """Queues go before the formula unless by_queue is off."""
    on = [name for name in ("by_queue", "round_robin") if config.ever(name)]
    if on:
        what = f"{' and '.join(on)} in {config.path}: queues go before the score, which orders each"
        return Check(WARN, "by_queue", f"{what} of them; False makes one order of all")
    return Check(PASS, "by_queue", "one order over all queues")


def _strict_ordering(config: SchedConfig) -> Check:
    """Without it what fits starts, whatever stands before it; help_starving_jobs is obsolete."""
    if config.always("strict_ordering"):
        return Check(PASS, "strict_ordering", "processors are kept for the first waiting job")
    what = (
        f"strict_ordering is not true at all times in {config.path}: nothing is kept free for the "
        "first job, so a wide one may wait for ever; set `strict_ordering: true ALL` "
        "there and send pbs_sched a HUP"
    )
    return Check(WARN, "strict_ordering", what)
