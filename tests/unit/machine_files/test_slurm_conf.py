"""Lines of slurm.conf, and what they say of scheduling."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import pytest

from slurm_rl_plugin.domain.machine import BackfillSettings, Machine, PriorityWeights
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.whole_file import LONGEST_FILE
from tests.unit.machine_files.written_files import NODES, PARTITION, machine_of_lines


def test_comments_continuations_quotes_and_cases(tmp_path: Path) -> None:
    machine = machine_of_lines(
        tmp_path,
        "# a comment \\",
        "clusterNAME=site # and one more",
        "nodename=n[1-2] CPUS=8 \\",
        '   realmemory = 16000 Reason="two words" \\',
        "   Feature=a,b",
        PARTITION,
    )
    assert machine.name == "site"
    (kind,) = machine.kinds
    assert (kind.name, kind.count, kind.resources) == ("n[1-2]", 2, (8.0, 16000.0, 0.0))
    assert kind.features == {"a", "b"}


def test_a_file_of_windows_with_a_mark_at_its_head(tmp_path: Path) -> None:
    tmp_path.joinpath("slurm.conf").write_bytes(
        b"\xef\xbb\xbfClusterName=site\r\n" + f"{NODES}\r\n{PARTITION}\r\n".encode()
    )
    assert read_machine(tmp_path / "slurm.conf").nodes == 4


def test_files_included_where_they_are_named(tmp_path: Path) -> None:
    machine = machine_of_lines(
        tmp_path,
        "ClusterName=site",
        "NodeName=DEFAULT RealMemory=500",
        "include nodes.conf",
        "Include partitions-%c.conf",
        nodes_conf="NodeName=n1 CPUs=2\nNodeName=DEFAULT CPUs=4\nNodeName=n2\n",
        **{"partitions-site_conf": PARTITION},
    )
    assert [kind.resources for kind in machine.kinds] == [(2.0, 500.0, 0.0), (4.0, 500.0, 0.0)]


@pytest.mark.parametrize(
    ("named", "copy"),
    [
        ("{away}/nodes.conf", "nodes.conf"),
        ("{away}/conf.d/nodes.conf", "conf.d/nodes.conf"),
        ("conf.d/nodes.conf", "nodes.conf"),
        ("{away}/nodes-%c.conf", "nodes-site.conf"),
    ],
)
@pytest.mark.parametrize("by", ["slurm.conf", "an included file", "gres.conf"])
def test_included_files_copied_to_another_host(
    tmp_path: Path, named: str, copy: str, by: str
) -> None:
    """The copy in the folder of slurm.conf is read, and a sentence says so."""
    away, here = tmp_path / "away", tmp_path / "here"
    file = here / copy
    file.parent.mkdir(parents=True)
    line = f"Include {named.format(away=away)}"
    gres = "Name=gpu Type=a100 Count=2\n"
    file.write_text(gres if by == "gres.conf" else "NodeName=n1 RealMemory=5 Gres=gpu:2\n")
    written = {"slurm.conf": line, "gres.conf": "", "more.conf": line}
    if by == "an included file":
        written["slurm.conf"] = "Include more.conf"
    elif by == "gres.conf":
        written |= {"slurm.conf": "NodeName=n1 RealMemory=5 Gres=gpu:2", "gres.conf": line}
    head = "ClusterName=Site\n"
    for name, text in written.items():
        here.joinpath(name).write_text(f"{head if name == 'slurm.conf' else ''}{text}\n")
    here.joinpath("slurm.conf").open("a").write(PARTITION + "\n")
    machine = read_machine(here)
    assert machine.kinds[0].resources[:2] == (1.0, 5.0)
    assert ("gres/gpu:a100" in machine.resources) is (by == "gres.conf")
    (note,) = machine.left_out
    assert f"Include {named.format(away=away)}: " in note
    assert note.endswith(f"is not on this host; {file} is read instead.")


def test_an_absolute_path_goes_before_a_copy(tmp_path: Path) -> None:
    away, here = tmp_path / "away", tmp_path / "here"
    for folder, cpus in ((away, 2), (here, 4)):
        folder.mkdir()
        folder.joinpath("nodes.conf").write_text(f"NodeName=n1 RealMemory=5 CPUs={cpus}\n")
    machine = machine_of_lines(here, f"Include {away}/nodes.conf", PARTITION)
    assert machine.kinds[0].resources[0] == 2.0
    (note,) = machine.left_out
    assert note.endswith(f"{away}/nodes.conf is read; {here}/nodes.conf has no effect.")
    own = machine_of_lines(here, f"Include {here}/nodes.conf", PARTITION)
    assert own.kinds[0].resources[0] == 4.0
    assert own.left_out == ()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Include missing.conf", r"slurm.conf:1: Include missing.conf: there is no file"),
        ("Include slurm.conf", "include each other"),
        ("Include *.conf", "name each file"),
        ("what is this", r"slurm.conf:1: the word at column 1 is no key=value"),
        ("CPUs=1  root:secret:1", r"^(?!.*secret).*the word at column 9 is no key=value"),
        ("NodeName=n[1-16] CPUs=1000000000", "CPUs=1000000000: a node has 65535 CPUs at most"),
        ("NodeName=n1 Sockets=9 CoresPerSocket=99 ThreadsPerCore=99", "65535 CPUs at most"),
        ("NodeName=n1 CpuSpecList=0-60000,0-60000", "lists more than 65535 CPUs"),
        ("NodeName=n[1-199999,1-199999]", r"names more than 262144 nodes"),
        ("NodeName=n[1-200000]\nNodeName=m[1-200000]", "lines before, it names more than 262144"),
        (
            f"NodeName=n[1-300] CPUs=65535\n{PARTITION}",
            "machine has 19660500 processors, and 16777216 can be simulated",
        ),
        ("NodeName=n1 CPUs=many", "slurm.conf:1: CPUs=many: this is no whole number"),
        ("NodeName=n[1-x]", r"NodeName=n\[1-x\]: .* is no list of numbers"),
        ("NodeName=n1 Gres=gpu:a:b:c:2", "is no NAME"),
        ("NodeName=n1\nNodeName=n1", "n1 has a line already"),
        ("NodeName=n1\nPartitionName=a Nodes=n1 MaxTime=soon", "this is no span of time"),
        ("NodeName=n1\nPartitionName=a Nodes=n1 Default=maybe", "write YES or NO"),
        ("NodeName=n1\nPartitionName=a Nodes=n7", "no NodeName or NodeSet line has n7"),
        ("NodeName=n1\nPartitionName=a Nodes=n1 TRESBillingWeights=CPU", "no RESOURCE=NUMBER"),
        ("NodeName=n1\nPartitionName=a Nodes=n1\nLicenses=a:b", "no NAME:COUNT"),
        ("NodeName=n1 CpuSpecList=a\nPartitionName=a Nodes=n1", "no list of CPUs"),
        ("NodeName=n1", "no PartitionName line"),
        ("PartitionName=a", "no NodeName line"),
        ("", "no NodeName line"),
    ],
)
def test_faults_are_one_sentence(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        machine_of_lines(tmp_path, line)
    assert "\n" not in str(caught.value)


def test_a_pipe_or_an_endless_file_is_waited_for_by_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.conf")
    tmp_path.joinpath("long.conf").write_text("\n" * (LONGEST_FILE + 1))
    for path in (tmp_path / "pipe.conf", Path("/dev/zero")):
        with pytest.raises(ConfigurationError, match="not a plain file"):
            read_machine(path)
    with pytest.raises(ConfigurationError, match="File too large"):
        read_machine(tmp_path / "long.conf")


def test_continued_lines_are_read_in_linear_time(tmp_path: Path) -> None:
    began = time.monotonic()
    lines = ["NodeName=n1 \\"] * 300_000
    with pytest.raises(ConfigurationError, match="no PartitionName"):
        machine_of_lines(tmp_path, *lines)
    assert time.monotonic() - began < 20.0  # hours, were each pair to copy the line


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        read_machine(tmp_path)
    tmp_path.joinpath("slurm.conf").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(ConfigurationError, match="is no text"):
        read_machine(tmp_path)


def machine_with(folder: Path, *lines: str) -> Machine:
    return machine_of_lines(folder, NODES, PARTITION, *lines)


def test_what_holds_where_nothing_is_said(tmp_path: Path) -> None:
    machine = machine_with(tmp_path)
    assert machine.backfill == BackfillSettings()
    assert machine.weights == PriorityWeights()
    assert (machine.counts_memory, machine.whole_nodes) == (True, False)
    assert (machine.name, machine.licences, machine.left_out) == ("", {}, ())


#: Lines, and what follows from them.
FOLLOWS = [
    (
        "SchedulerParameters=bf_interval=120,bf_window=4320,BF_resolution=300,bf_max_job_test=9,"
        "bf_max_job_user=5,bf_continue,default_queue_depth=7,sched_interval=30,max_script_size=1",
        BackfillSettings(
            interval=120.0,
            window=259200.0,
            resolution=300.0,
            most_jobs=9,
            most_of_user=5,
            depth=7,
            main_interval=30.0,
        ),
    ),
    # of two values of a parameter Slurm's first holds
    (
        "SchedulerParameters=bf_window=60,max_job_bf=5,BF_MAX_JOB_TEST=9,bf_window=30",
        BackfillSettings(window=3600.0, most_jobs=9),
    ),
    ("SchedulerType=sched/builtin", BackfillSettings(backfills=False)),
    (
        "SchedulerParameters=bf_interval=-1,sched_interval=-1",
        BackfillSettings(backfills=False, main_interval=math.inf),
    ),
    (
        "PriorityWeightAge=1\nPriorityWeightFairshare=2\nPriorityWeightJobSize=3\n"
        "PriorityWeightPartition=4\nPriorityWeightQOS=5\nPriorityWeightAssoc=6\n"
        "FairShareDampeningFactor=7\nPriorityUsageResetPeriod=monthly\nPriorityMaxAge=14-0\n"
        "PriorityWeightTRES=CPU=10,Mem=.03,GRES/gpu=30000\nPriorityDecayHalfLife=0\n"
        "PriorityFavorSmall=YES\nPriorityFlags=no_normal_tres,MAX_TRES",
        PriorityWeights(
            age=1.0,
            fairshare=2.0,
            size=3.0,
            partition=4.0,
            qos=5.0,
            association=6.0,
            dampening=7.0,
            reset_period="MONTHLY",
            resources={"cpus": 10.0, "memory": 0.03, "gpus": 30000.0},
            highest_age=14 * 86400.0,
            half_life=math.inf,
            favours_small=True,
            flags=frozenset({"NO_NORMAL_TRES", "MAX_TRES"}),
        ),
    ),
    # Slurm accepts an age that is whole at once, by which no one can divide
    ("PriorityMaxAge=0", PriorityWeights(highest_age=1.0)),
    ("PriorityMaxAge=UNLIMITED", PriorityWeights(highest_age=math.inf)),
    ("PriorityType=priority/basic\nPriorityWeightAge=9", PriorityWeights()),
    ("SelectTypeParameters=CR_Core", {"counts_memory": False, "whole_nodes": False}),
    ("SelectTypeParameters=CR_CPU_Memory", {"counts_memory": True, "whole_nodes": False}),
    ("SelectType=select/linear", {"counts_memory": False, "whole_nodes": True}),
    (
        "SelectType=select/linear\nSelectTypeParameters=CR_Memory",
        {"counts_memory": True, "whole_nodes": True},
    ),
    (
        "Licenses=matlab:10,ansys,foo@server:3",
        {"licences": {"matlab": 10.0, "ansys": 1.0, "foo@server": 3.0}},
    ),
]


@pytest.mark.parametrize(("lines", "expected"), FOLLOWS)
def test_what_follows_from_lines(tmp_path: Path, lines: str, expected: object) -> None:
    machine = machine_with(tmp_path, lines)
    if not isinstance(expected, dict):
        expected = {"backfill" if isinstance(expected, BackfillSettings) else "weights": expected}
    assert {name: getattr(machine, name) for name in expected} == expected
    assert isinstance(machine.backfill.most_jobs, int)
    assert machine.left_out == ()


def test_a_value_that_slurm_would_not_take(tmp_path: Path) -> None:
    machine = machine_with(tmp_path, "SchedulerParameters=bf_interval=0,bf_window=long")
    assert machine.backfill == BackfillSettings()
    assert [each.split(":")[0] for each in machine.left_out] == [
        "SchedulerParameters bf_interval=0",
        "SchedulerParameters bf_window=long",
    ]


def test_ends_count_where_limits_are_enforced(tmp_path: Path) -> None:
    assert machine_with(tmp_path, "AccountingStorageEnforce=safe").weights.counts_ends


@pytest.mark.parametrize("period", ["0", "UNLIMITED"])
def test_priorities_that_would_never_be_calculated_are_refused(tmp_path: Path, period: str) -> None:
    with pytest.raises(ConfigurationError, match=f"PriorityCalcPeriod={period}: Slurm refuses"):
        machine_with(tmp_path, f"PriorityCalcPeriod={period}")


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


def test_what_says_the_same_is_not_told(tmp_path: Path) -> None:
    lines = """PreemptType=preempt/none
PreemptMode=OFF
TopologyPlugin=topology/flat
OverTimeLimit=0
SuspendTime=INFINITE
PriorityWeightAssoc=7
PriorityUsageResetPeriod=WEEKLY
AuthType=auth/munge
FairShareDampeningFactor=5
SlurmctldParameters=idle_on_node_suspend
PriorityCalcPeriod=5
EnforcePartLimits=ALL
GresTypes=gpu
KillWait=30"""
    assert machine_with(tmp_path, lines).left_out == ()
