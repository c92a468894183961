"""Jobs of a log on a machine whose partitions let in less than before.

Who asked for more than a partition now allows would have been told so at submission, and would have
asked for something else. What: docs/what-if.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine, MachinePartition
from slurm_rl_plugin.simulator.workloads.machine_load import limits_of_time, partition_of
from slurm_rl_plugin.units import BoolArray


def admitted(log: JobLog, before: Machine, after: Machine) -> tuple[JobLog, list[str]]:
    """The jobs as their users would send them to the changed machine, and what of them differs.

    A job that ran no longer than its partition now allows asks for just that; one that ran longer
    goes to the first other partition of the changed machine that allows its limit, and where there
    is none it stays, cut at what is allowed.

    Args:
        log: the jobs as they were recorded.
        before: the machine that they were sent to.
        after: the same after a change.

    Returns:
        The jobs, and a sentence on each partition that allows less than before.
    """
    sentences: list[str] = []
    for change in _narrower(before, after):
        log, sentence = _under(log, change, after)
        sentences.append(sentence)
    return log, sentences


def _narrower(before: Machine, after: Machine) -> Iterator[MachinePartition]:
    """Partitions of the changed machine that allow less time than the same did before."""
    longest = {each.name: each.longest for each in before.partitions}
    for each in after.partitions:
        if each.longest < longest.get(each.name, np.inf):
            yield each


def _under(log: JobLog, partition: MachinePartition, machine: Machine) -> tuple[JobLog, str]:
    place = [each.name for each in machine.partitions].index(partition.name)
    limit = limits_of_time(log, machine)
    above = (partition_of(log, machine) == place) & (limit > partition.longest)
    shorter = above & (log.run_time <= partition.longest)
    others = [
        each
        for each in machine.partitions
        if each.longest > partition.longest and each.name != partition.name
    ]
    time_limit = np.where(shorter, partition.longest, log.time_limit)
    moved, log = _moved(log, above & ~shorter, limit, others)
    cut = above & ~shorter & ~moved
    log = replace(
        log,
        time_limit=np.where(cut, partition.longest, time_limit),
        run_time=np.where(cut, partition.longest, log.run_time),
    )
    sentence = (
        f"partition {partition.name} now allows {partition.longest / 60:g} minutes: "
        f"{int(shorter.sum())} jobs that asked for more and ran no longer ask for that, "
        f"{int(moved.sum())} go to another partition, {int(cut.sum())} end there."
    )
    return log, sentence


def _moved(
    log: JobLog, chosen: BoolArray, limit: np.ndarray, others: Sequence[MachinePartition]
) -> tuple[BoolArray, JobLog]:
    """Send the chosen jobs to the first partition that allows their limit; which have gone."""
    names, column = list(log.partitions), log.partition.copy()
    moved = np.zeros(len(log), dtype=np.bool_)
    for each in others:
        goes = chosen & ~moved & (limit <= each.longest)
        if goes.any():
            if each.name not in names:
                names.append(each.name)
            column[goes] = names.index(each.name)
            moved |= goes
    return moved, replace(log, partitions=tuple(names), partition=column)
