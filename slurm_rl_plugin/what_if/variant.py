"""A variant of a cluster: changed configuration, another order, goals, a reserve, and its jobs.

A user who asked for more than a partition now allows would have been refused at submission, and
would have asked for something else (docs/what-if.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine, MachinePartition
from slurm_rl_plugin.domain.resources import CPUS
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.machine_files.changes import PLACE, changed
from slurm_rl_plugin.machine_files.reader import DescribedCluster
from slurm_rl_plugin.machine_files.statements import Value, limits_of
from slurm_rl_plugin.policies.waiting_rules import SITES_OWN
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.machine_load import jobs_held, limits_of_time, partition_of
from slurm_rl_plugin.units import MINUTE, BoolArray, FloatArray

#: The cluster as it is.
AS_IT_IS = "as it is"
#: Words of a change that are no words of slurm.conf: our order, a goal of it, and what is kept from
#: batch jobs.
HOOK, GOAL, RESERVE = "hook", "goal", "reserve"
#: The model of a hook that none is named for.
DEFAULT_MODEL = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterVariant:
    """One cluster to try."""

    name: str
    machine: Machine
    #: what orders its queue; by default the site's own multifactor
    policy: Candidate = field(default_factory=lambda: Candidate(name=SITES_OWN))
    #: of `domain.goals.Goals`, name -> value, in place of those of the settings
    goals: Mapping[str, float] = field(default_factory=dict)
    #: resource -> how much is kept from batch jobs at most
    reserve: Mapping[str, float] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()  #: what of its changes is not simulated

    @property
    def has_hook(self) -> bool:
        """Our hook orders its queue."""
        return self.policy.name != SITES_OWN

    def settings(self, settings: SimulationSettings) -> SimulationSettings:
        """The batch system of this variant: bounds of the hook only where there is one."""
        settings = settings if self.has_hook else settings.without_hook
        goals = replace(settings.goals, **self.goals)
        settings = replace(settings, capacity=int(self.machine.capacity[0]), goals=goals)
        if not self.reserve:
            return settings
        processors = int(self.reserve.get(CPUS, 1.0))
        others = {name: most for name, most in self.reserve.items() if name != CPUS}
        limit = settings.class_limit or ClassLimit()
        limit = replace(limit, most=float(processors), most_resources=others)
        return replace(settings, reserve=processors, class_limit=limit)


def variant_of(
    words: str,
    cluster: DescribedCluster,
    candidate_of: Callable[[str], Candidate],
    goal_of: Callable[[str], tuple[str, float]],
) -> ClusterVariant:
    """The variant that some words describe: changes with `;` between, all of them together.

    Each is a change as `machine_files.changes.changed` takes it, `hook MODEL`, behind it `goal
    NAME=VALUE`, or `reserve RESOURCE=NUMBER`. `candidate_of` makes the policy of a model's name,
    `goal_of` name and value of NAME=VALUE.

    Raises:
        ConfigurationError: a change cannot be understood, or it changes nothing that counts here.
        PolicyError: the model cannot be read.
    """
    ours, theirs = _sorted_out(words)
    before, now = cluster.machine, cluster
    for each in theirs:
        now = changed(now, each)
    found = ClusterVariant(name=" ".join(words.split()), machine=before)
    try:
        after = now.machine
    except ConfigurationError as error:  # what does not fit is the changes': it did before
        if str(error).startswith(PLACE):
            raise
        raise ConfigurationError(f"{PLACE} {found.name!r}: {error}") from None
    if HOOK in ours:
        found = replace(found, policy=candidate_of(ours[HOOK][0] or DEFAULT_MODEL))
    if GOAL in ours:
        found = replace(found, goals=_goals(ours, goal_of))
    if RESERVE in ours:
        found = replace(found, reserve=_reserve(",".join(ours[RESERVE]), after))
    sentences = [each for each in after.left_out if each not in before.left_out]
    if after == replace(before, left_out=after.left_out) and not ours:
        sentences.append("nothing that is simulated differs from the cluster as it is.")
    return replace(found, machine=after, sentences=tuple(sentences))


def _sorted_out(words: str) -> tuple[dict[str, list[str]], list[str]]:
    """What is said of our hook, by its first word, and the changes of the cluster."""
    parts = [part.strip() for part in words.split(";") if part.strip()]
    if not parts:
        raise ConfigurationError(f"{PLACE} names no change: write such as PriorityWeightAge=2000.")
    ours: dict[str, list[str]] = {}
    theirs: list[str] = []
    for each in parts:
        first, _, rest = each.partition(" ")
        if first.lower() in (HOOK, GOAL, RESERVE):
            ours.setdefault(first.lower(), []).append(rest.strip())
        else:
            theirs.append(each)
    if len(ours.get(HOOK, [])) > 1:
        raise ConfigurationError(
            f"{PLACE} {words!r}: a cluster has one {HOOK}; leave out the others."
        )
    return ours, theirs


def _goals(
    ours: Mapping[str, list[str]], goal_of: Callable[[str], tuple[str, float]]
) -> dict[str, float]:
    if HOOK not in ours:
        raise ConfigurationError(
            f"{PLACE} {GOAL} {ours[GOAL][0]}: a goal is of our order: write {HOOK} MODEL; before."
        )
    try:
        return dict(map(goal_of, ours[GOAL]))
    except ConfigurationError as error:
        raise ConfigurationError(f"{PLACE}: {error}") from None


def _reserve(words: str, machine: Machine) -> dict[str, float]:
    kept = limits_of(Value(PLACE, RESERVE, words.strip()))
    whole = dict(zip(machine.resources, machine.capacity.tolist(), strict=True))
    for name, most in kept.items():
        if not 0.0 < most <= whole.get(name, 0.0):
            raise ConfigurationError(
                f"{PLACE} reserve {name}={most:g}: the cluster has {whole.get(name, 0.0):g}; keep "
                "more than 0 and no more than that."
            )
    if not kept:
        raise ConfigurationError(f"{PLACE} reserve: write RESOURCE=NUMBER, such as gres/gpu=8.")
    if not float(kept.get(CPUS, 1.0)).is_integer():
        raise ConfigurationError(f"{PLACE} reserve cpu={kept[CPUS]:g}: give a whole number.")
    return kept


def admitted(log: JobLog, before: Machine, after: Machine) -> tuple[JobLog, list[str]]:
    """The jobs as users would send them to the changed machine, and a sentence on each change.

    A job that ran no longer than its partition now allows asks for just that; one that ran longer
    goes to the first other partition of the changed machine that allows its limit and whose nodes
    hold it, and where there is none it stays and ends at what is allowed.
    """
    sentences: list[str] = []
    limit = limits_of_time(log, before)  # of a job that asks for none, what it was given
    longest = {each.name: each.longest for each in before.partitions}
    for each in after.partitions:  # those that allow less time than the same did before
        if each.longest < longest.get(each.name, np.inf):
            log, sentence = _under(log, limit, each, after)
            sentences.append(sentence)
    return log, sentences


def _under(
    log: JobLog, limit: FloatArray, partition: MachinePartition, machine: Machine
) -> tuple[JobLog, str]:
    place = [each.name for each in machine.partitions].index(partition.name)
    mine = partition_of(log, machine) == place
    shorter = mine & (limit > partition.longest) & (log.run_time <= partition.longest)
    longer = mine & (log.run_time > partition.longest)
    needed = np.fmax(limit, log.run_time)
    log, moved = _moved(log, longer, needed, partition, machine)
    cut = longer & ~moved
    at_limit = shorter | cut
    log = replace(
        log,
        time_limit=np.where(at_limit, partition.longest, log.time_limit),
        run_time=np.where(cut, partition.longest, log.run_time),
    )
    sentence = (
        f"partition {partition.name} now allows {partition.longest / MINUTE:g} minutes: "
        f"{int(shorter.sum())} jobs that asked for more and ran no longer ask for that, "
        f"{int(moved.sum())} go to another partition, {int(cut.sum())} end there."
    )
    return log, sentence


def _moved(
    log: JobLog, chosen: BoolArray, needed: FloatArray, left: MachinePartition, machine: Machine
) -> tuple[JobLog, BoolArray]:
    """Send the chosen jobs to the first partition that takes them; which have gone."""
    moved = np.zeros(len(log), dtype=np.bool_)
    for each in machine.partitions:
        goes = chosen & ~moved & (needed <= each.longest)
        if each.longest <= left.longest or each.name == left.name or not goes.any():
            continue
        sent = _sent_to(each.name, log, goes)
        goes[goes] = jobs_held(sent.select(goes), machine)[0]
        log = _sent_to(each.name, log, goes)
        moved |= goes
    return log, moved


def _sent_to(name: str, log: JobLog, chosen: BoolArray) -> JobLog:
    names = log.partitions if name in log.partitions else (*log.partitions, name)
    column = np.where(chosen, names.index(name), log.partition)
    return replace(log, partitions=names, partition=column)
