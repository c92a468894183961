"""Jobs of a log on a machine whose partitions let in less than before.

Who asked for more than a partition now allows would have been told so at submission, and would have
asked for something else. What: docs/what-if.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine, MachinePartition
from slurm_rl_plugin.simulator.workloads.machine_load import (
    jobs_held,
    limits_of_time,
    partition_of,
)
from slurm_rl_plugin.units import MINUTE, BoolArray, FloatArray


def admitted(log: JobLog, before: Machine, after: Machine) -> tuple[JobLog, list[str]]:
    """The jobs as their users would send them to the changed machine, and what of them differs.

    A job that ran no longer than its partition now allows asks for just that; one that ran longer
    goes to the first other partition of the changed machine that allows its limit and whose nodes
    hold it, and where there is none it stays and ends at what is allowed.

    Args:
        log: the jobs as they were recorded.
        before: the machine that they were sent to.
        after: the same after a change.

    Returns:
        The jobs, and a sentence on each partition that allows less than before.
    """
    sentences: list[str] = []
    limit = limits_of_time(log, before)  # of a job that asks for none, what it was given
    for partition in _narrower(before, after):
        log, sentence = _under(log, limit, partition, after)
        sentences.append(sentence)
    return log, sentences


def _narrower(before: Machine, after: Machine) -> Iterator[MachinePartition]:
    """Partitions of the changed machine that allow less time than the same did before."""
    longest = {each.name: each.longest for each in before.partitions}
    for each in after.partitions:
        if each.longest < longest.get(each.name, np.inf):
            yield each


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
