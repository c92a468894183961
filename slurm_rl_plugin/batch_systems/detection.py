"""Which batch system is here where nobody has configured it: Slurm or OpenPBS, and why."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.batch_systems.command_process import KillableCommands
from slurm_rl_plugin.batch_systems.pbs.process import DEFAULT_CONF, PbsCommands, read_pbs_conf
from slurm_rl_plugin.errors import BatchSystemUnavailable

AUTO, PBS = "auto", "pbs"
#: Where Slurm's configuration is looked for, unless SLURM_CONF names it.
SLURM_CONFS = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/run/slurm/conf/slurm.conf",
)
#: Seconds that each may take to answer; asked only where there are both.
SECONDS_TO_ANSWER = 5.0


@dataclass(frozen=True, slots=True)
class BatchSystemChoice:
    """Whether the PBS adapter is taken, why in a few words, and whether that is beyond doubt."""

    pbs: bool
    because: str
    sure: bool = True


def choose_batch_system(
    wanted: str, environment: Mapping[str, str], slurm_confs: Sequence[str] = SLURM_CONFS
) -> BatchSystemChoice:
    """Which of the two: as configured, else the one that is here, else the one that answers.

    Torque has a `qstat` too, but no pbs.conf that names PBS_EXEC.

    Args:
        wanted: the configured adapter.
        environment: PATH, PBS_CONF_FILE and SLURM_CONF.
        slurm_confs: where slurm.conf may be.
    """
    if wanted != AUTO:
        return BatchSystemChoice(wanted == PBS, f'adapter = "{wanted}" is configured')
    conf = environment.get("PBS_CONF_FILE") or DEFAULT_CONF
    scontrol = shutil.which("scontrol", path=environment.get("PATH"))
    if not _has_pbs(conf):
        return BatchSystemChoice(False, f"no OpenPBS is here (no PBS_EXEC in {conf})")
    if scontrol is None:
        return BatchSystemChoice(True, f"{conf} is here, and no scontrol")
    return _of_two(conf, environment, slurm_confs)


def _has_pbs(conf: str) -> bool:
    installed = read_pbs_conf(conf).get("PBS_EXEC")
    return installed is not None and Path(installed, "bin", "qstat").exists()


def _of_two(
    conf: str, environment: Mapping[str, str], slurm_confs: Sequence[str]
) -> BatchSystemChoice:
    """Both have their commands here: one may be a left-over."""
    slurm, pbs = _slurm_answers(environment), _pbs_answers(environment)
    if slurm != pbs:
        one, other = ("OpenPBS", "Slurm") if pbs else ("Slurm", "OpenPBS")
        return BatchSystemChoice(pbs, f"both are installed; {one} answers, {other} does not")
    places = (environment["SLURM_CONF"],) if environment.get("SLURM_CONF") else slurm_confs
    found = next((place for place in places if Path(place).exists()), None)
    how = "both answer" if slurm else "neither answers"
    if found is None and not slurm:
        return BatchSystemChoice(True, f"{how}; {conf} is here, and no slurm.conf")
    because = f'Slurm and OpenPBS are installed and {how}: set adapter = "pbs" if PBS is meant'
    return BatchSystemChoice(False, because, sure=False)


def _slurm_answers(environment: Mapping[str, str]) -> bool:
    commands = KillableCommands(
        environment=environment,
        timeout=SECONDS_TO_ANSWER,
        on_call=None,
        without_answer="",
        without_command="",
    )
    return _answers(commands, ("scontrol", "ping"))


def _pbs_answers(environment: Mapping[str, str]) -> bool:
    commands = PbsCommands(environment=environment, timeout=SECONDS_TO_ANSWER, on_call=None)
    return _answers(commands, ("qstat", "-B"))


def _answers(commands: KillableCommands, words: Sequence[str]) -> bool:
    try:
        return commands.call(words).status == 0
    except BatchSystemUnavailable:
        return False
