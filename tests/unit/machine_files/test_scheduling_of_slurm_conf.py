from __future__ import annotations

import math
from pathlib import Path

import pytest

from slurm_rl_plugin.domain.machine import BackfillSettings, Machine, PriorityWeights
from slurm_rl_plugin.errors import ConfigurationError
from tests.unit.machine_files.written_files import NODES, PARTITION, machine_of_lines


def machine_with(folder: Path, *lines: str) -> Machine:
    return machine_of_lines(folder, NODES, PARTITION, *lines)


def test_what_holds_where_nothing_is_said(tmp_path: Path) -> None:
    machine = machine_with(tmp_path)
    assert machine.backfill == BackfillSettings()
    assert machine.weights == PriorityWeights()
    assert (machine.counts_memory, machine.whole_nodes) == (True, False)
    assert (machine.name, machine.licences, machine.left_out) == ("", {}, ())


def test_parameters_of_backfill(tmp_path: Path) -> None:
    machine = machine_with(
        tmp_path,
        "SchedulerParameters=bf_interval=120,bf_window=4320,BF_resolution=300,bf_max_job_test=9,"
        "bf_max_job_user=5,bf_continue,default_queue_depth=7,sched_interval=30,max_script_size=1",
    )
    assert machine.backfill == BackfillSettings(
        interval=120.0,
        window=259200.0,
        resolution=300.0,
        most_jobs=9,
        most_of_user=5,
        depth=7,
        main_interval=30.0,
    )
    assert isinstance(machine.backfill.most_jobs, int)
    assert machine.left_out == ()


def test_of_two_values_of_a_parameter_slurms_first_holds(tmp_path: Path) -> None:
    machine = machine_with(
        tmp_path,
        "SchedulerParameters=bf_window=60,max_job_bf=5,BF_MAX_JOB_TEST=9,bf_window=30",
    )
    assert (machine.backfill.window, machine.backfill.most_jobs) == (3600.0, 9)
    assert machine.left_out == ()


def test_schedulers_switched_off(tmp_path: Path) -> None:
    assert not machine_with(tmp_path, "SchedulerType=sched/builtin").backfill.backfills
    off = machine_with(tmp_path, "SchedulerParameters=bf_interval=-1,sched_interval=-1")
    assert not off.backfill.backfills
    assert off.backfill.main_interval == math.inf
    assert off.left_out == ()


def test_a_value_that_slurm_would_not_take(tmp_path: Path) -> None:
    machine = machine_with(tmp_path, "SchedulerParameters=bf_interval=0,bf_window=long")
    assert machine.backfill == BackfillSettings()
    assert [each.split(":")[0] for each in machine.left_out] == [
        "SchedulerParameters bf_interval=0",
        "SchedulerParameters bf_window=long",
    ]


def test_weights_of_priorities(tmp_path: Path) -> None:
    machine = machine_with(
        tmp_path,
        "PriorityWeightAge=1",
        "PriorityWeightFairshare=2",
        "PriorityWeightJobSize=3",
        "PriorityWeightPartition=4",
        "PriorityWeightQOS=5",
        "AccountingStorageEnforce=safe",
        "PriorityWeightAssoc=6",
        "FairShareDampeningFactor=7",
        "PriorityUsageResetPeriod=monthly",
        "PriorityWeightTRES=CPU=10,Mem=.03,GRES/gpu=30000",
        "PriorityMaxAge=14-0",
        "PriorityDecayHalfLife=0",
        "PriorityFavorSmall=YES",
        "PriorityFlags=no_normal_tres,MAX_TRES",
    )
    assert machine.weights == PriorityWeights(
        age=1.0,
        fairshare=2.0,
        size=3.0,
        partition=4.0,
        qos=5.0,
        association=6.0,
        dampening=7.0,
        reset_period="MONTHLY",
        counts_ends=True,
        resources={"cpus": 10.0, "memory": 0.03, "gpus": 30000.0},
        highest_age=14 * 86400.0,
        half_life=math.inf,
        favours_small=True,
        flags=frozenset({"NO_NORMAL_TRES", "MAX_TRES"}),
    )


def test_age_that_is_whole_at_once(tmp_path: Path) -> None:
    """Slurm takes PriorityMaxAge=0; nobody can divide by it."""
    assert machine_with(tmp_path, "PriorityMaxAge=0").weights.highest_age == 1.0
    assert machine_with(tmp_path, "PriorityMaxAge=UNLIMITED").weights.highest_age == math.inf


@pytest.mark.parametrize("period", ["0", "UNLIMITED"])
def test_priorities_that_would_never_be_calculated_are_refused(tmp_path: Path, period: str) -> None:
    with pytest.raises(ConfigurationError, match=f"PriorityCalcPeriod={period}: Slurm takes no"):
        machine_with(tmp_path, f"PriorityCalcPeriod={period}")


def test_first_come_first_served_has_no_weights(tmp_path: Path) -> None:
    machine = machine_with(tmp_path, "PriorityType=priority/basic", "PriorityWeightAge=9")
    assert machine.weights == PriorityWeights()


@pytest.mark.parametrize(
    ("lines", "memory", "whole"),
    [
        (["SelectType=select/cons_tres", "SelectTypeParameters=CR_Core"], False, False),
        (["SelectTypeParameters=CR_CPU_Memory,CR_LLN"], True, False),
        (["SelectType=select/linear"], False, True),
        (["SelectType=select/linear", "SelectTypeParameters=CR_Memory"], True, True),
    ],
)
def test_what_a_node_gives(tmp_path: Path, lines: list[str], memory: bool, whole: bool) -> None:
    machine = machine_with(tmp_path, *lines)
    assert (machine.counts_memory, machine.whole_nodes) == (memory, whole)


def test_licences(tmp_path: Path) -> None:
    machine = machine_with(tmp_path, "Licenses=matlab:10,ansys,foo@server:3")
    assert machine.licences == {"matlab": 10.0, "ansys": 1.0, "foo@server": 3.0}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("PreemptType=preempt/qos", "PreemptType=preempt/qos: no job is preempted."),
        ("TopologyPlugin=topology/tree", "jobs are not kept on near nodes."),
        ("SchedulerParameters=defer,bf_max_time=0", "defer: a job is tried as it comes."),
        ("SchedulerParameters=bf_max_job_part=9", "backfill has no bound by partition."),
        ("SchedulerParameters=bf_new=9", "bf_new=9: not known here, so it has no effect."),
        ("SelectTypeParameters=CR_CPU_Memory,CR_LLN", "CR_LLN: nodes are not filled evenly."),
        ("ShedulerType=sched/backfill", "not known here, so it has no effect."),
        ("SlurmctldParameters=cloud_dns", "nodes are there at once."),
    ],
)  # fmt: skip
def test_what_is_not_modelled_is_told(tmp_path: Path, line: str, sentence: str) -> None:
    (told,) = machine_with(tmp_path, line).left_out
    assert told.endswith(sentence)


@pytest.mark.parametrize(
    "line",
    [
        *("PreemptType=preempt/none", "PreemptMode=OFF", "TopologyPlugin=topology/flat"),
        *(
            "OverTimeLimit=0",
            "SuspendTime=INFINITE",
            "PriorityWeightAssoc=7",
            "PriorityUsageResetPeriod=WEEKLY",
            "AuthType=auth/munge",
        ),
        *("FairShareDampeningFactor=5", "SlurmctldParameters=idle_on_node_suspend"),
        *("PriorityCalcPeriod=5", "EnforcePartLimits=ALL", "GresTypes=gpu", "KillWait=30"),
    ],
)
def test_what_says_the_same_is_not_told(tmp_path: Path, line: str) -> None:
    assert machine_with(tmp_path, line).left_out == ()
