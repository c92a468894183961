"""The logs of the study: those of parallel machines, and a week of a cluster with its nodes."""

from __future__ import annotations

from pathlib import Path

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.papers.study.parallel_machines import read_study_logs
from slurm_rl_plugin.simulator.schedules.on_nodes import AS_SLURM
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log

#: The week of UB-HPC as its folder has it, and its machine beside it.
_WEEK, _MACHINE = "workload_week.events.gz", "slurm.conf"


def logs_in(folder: Path) -> dict[str, PreparedLog]:
    """Those that a folder holds, under their names.

    Raises:
        ConfigurationError: none is there, or the machine cannot be read.
        AccountingLogError: one cannot be read.
    """
    places = [each for each in (folder, folder / "ubhpc") if (each / _WEEK).exists()]
    found = {
        name: each.prepared
        for name, each in read_study_logs(folder, fewest=0 if places else 1).items()
    }
    for place in places[:1]:
        machine = read_machine(place / _MACHINE)
        found["UB-HPC"] = prepare_log(read_log(place / _WEEK)[0], machine=machine)
    return found


def backfilling_of(log: PreparedLog) -> str:
    """As slurmctld does it where the machine is known by its nodes, else EASY."""
    return "easy" if log.machine is None else AS_SLURM
