from __future__ import annotations

import math
from pathlib import Path

import pytest

from slurm_rl_plugin.domain.machine import Machine, ResourceLimit
from slurm_rl_plugin.domain.share_tree import Association
from slurm_rl_plugin.errors import ConfigurationError
from tests.unit.machine_files.written_files import NODES, PARTITION, machine_of_lines

ENFORCED = "AccountingStorageEnforce=associations,limits,qos"
SCRIPT = """\
# limits of the site
remove QOS where Name=normal
sacctmgr -i add QOS Name=long Priority=5 MaxSubmitJobsPerUser=10 GrpTRES=cpu=100,mem=1T
add qos short,debug
modify qos short set MaxTRESPerUser=cpu=8,gres/gpu=2 MaxJobsPerUser=3 MaxWall=1-00:00:00
add cluster Name=site Fairshare=1 QOS=long
add account Name=Physics Description="all of physics" Fairshare=30
add account name=optics parent=physics Fairshare=parent
modify account where name=physics set GrpTRES=node=4 GrpJobs=7 MaxJobs=2 MaxTRES=cpu=64
add user Name=ann DefaultAccount=physics Fairshare=parent
add user name=bob Account=physics,optics DefaultAccount=optics MaxJobs=9
modify user bob set qos=long,short
list associations format=Account
"""
DUMP = """\
# To edit this file start with a cluster line for the new cluster
Cluster - 'site':Fairshare=1:QOS='normal'
QOS - 'long':Description='slow ones':Priority=5:GrpTRES=cpu=100,mem=1048576
QOS - 'short':MaxTRESPerUser=cpu=8,gres/gpu=2:MaxJobsPerUser=3:MaxWallDurationPerJob=1440
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'physics':Description='all: of physics':Organization='x':Fairshare=30:GrpJobs=7\
:GrpTRES=node=4,gres/gpu:a100=2:MaxTRESPerJob=cpu=64:MaxJobs=2
Parent - 'physics'
Account - 'optics':Description='light':Fairshare=2147483647
User - 'ann':DefaultAccount='physics':Fairshare=parent:Priority=9
"""


def machine(folder: Path, *lines: str, **files: str) -> Machine:
    return machine_of_lines(folder, "ClusterName=site", ENFORCED, NODES, PARTITION, *lines, **files)


def shares_of(found: Machine) -> dict[str, float | None]:
    """Of accounts that do not take their parent's."""
    return {each.account: each.share for each in found.associations if each.parent and each.share}


def test_a_script(tmp_path: Path) -> None:
    found = machine(tmp_path, sacctmgr_script=SCRIPT)
    assert found.qos == {
        "long": ResourceLimit(group={"cpus": 100.0, "memory": 1024.0**2}, priority=5.0),
        "short": ResourceLimit(user={"cpus": 8.0, "gpus": 2.0, "jobs": 3.0}, longest=86400.0),
        "debug": ResourceLimit(),
    }
    group, user, job = {"nodes": 4.0, "jobs": 7.0}, {"jobs": 2.0}, {"cpus": 64.0}
    assert found.accounts == {
        "physics": ResourceLimit(group=group, user=user, job=job),
        "optics": ResourceLimit(user=user, job=job),  # of the account above it
    }
    assert found.users == {"bob": ResourceLimit(group={"jobs": 9.0})}
    assert shares_of(found) == {"physics": 30.0}
    assert found.parent_of == {"physics": "root", "optics": "physics"}
    assert found.account_of == {"ann": "physics", "bob": "optics"}
    assert found.left_out == ()


def test_a_dump(tmp_path: Path) -> None:
    found = machine(tmp_path, site_cfg=DUMP)
    assert found.qos == {
        "long": ResourceLimit(group={"cpus": 100.0, "memory": 1024.0**2}, priority=5.0),
        "short": ResourceLimit(user={"cpus": 8.0, "gpus": 2.0, "jobs": 3.0}, longest=86400.0),
    }
    physics = found.accounts["physics"]
    assert physics.group == {"nodes": 4.0, "jobs": 7.0, "gres/gpu:a100": 2.0}
    assert (physics.user, physics.job) == ({"jobs": 2.0}, {"cpus": 64.0})
    assert shares_of(found) == {"physics": 30.0}
    assert found.parent_of == {"physics": "root", "optics": "physics"}
    assert found.account_of == {"root": "root", "ann": "physics"}
    assert found.associations == (
        Association("optics", parent="physics", share=None),
        Association("physics", parent="root", share=30.0),
        Association("physics", "ann", share=None, priority=9.0),
        Association("root", "root"),
    )
    assert found.left_out == ()


def test_tables(tmp_path: Path) -> None:
    qos = (
        "Name|Priority|GraceTime|Preempt|Flags|UsageFactor|GrpTRES|MaxWall|MaxTRESPU|MaxJobsPU\n"
        "Long|5|00:00:00||DenyOnLimit|1.000000|cpu=100,mem=1T|2-00:00:00|cpu=8|3\n"
    )
    associations = (
        "Cluster|Account|Par Name|User|Partition|Share|GrpJobs|GrpTRES|MaxJobs|MaxWall|Def Acct\n"
        "site|root||||1|||||\n"
        "site| physics|root|||30|7|node=4|2||\n"
        "site|  physics||ann||parent|||5||physics\n"
        "other|chemistry|root|||9|||||\n"
    )
    found = machine(tmp_path, qos_txt=qos, assoc_txt=associations)
    assert found.qos == {
        "long": ResourceLimit(
            group={"cpus": 100.0, "memory": 1024.0**2},
            user={"cpus": 8.0, "jobs": 3.0},
            longest=172800.0,
            priority=5.0,
        )
    }
    group, user = {"jobs": 7.0, "nodes": 4.0}, {"jobs": 2.0}
    assert found.accounts == {"physics": ResourceLimit(group=group, user=user)}
    assert found.users == {"ann": ResourceLimit(group={"jobs": 5.0})}
    assert shares_of(found) == {"physics": 30.0}
    assert (found.parent_of, found.account_of) == ({"physics": "root"}, {"ann": "physics"})
    assert found.left_out == ()


def test_an_account_takes_over_what_those_above_it_say(tmp_path: Path) -> None:
    dump = (
        "Cluster - 'site':MaxTRESPerJob=cpu=9:MaxWallDurationPerJob=60\nParent - 'root'\n"
        "Account - 'a':MaxJobs=2:GrpJobs=8\nParent - 'a'\nAccount - 'b':MaxTRESPerJob=cpu=5\n"
    )
    found = machine(tmp_path, sacctmgr_cfg=dump)
    jobs = {"jobs": 2.0}
    assert found.accounts == {
        "root": ResourceLimit(job={"cpus": 9.0}, longest=3600.0),
        "a": ResourceLimit(group={"jobs": 8.0}, user=jobs, job={"cpus": 9.0}, longest=3600.0),
        "b": ResourceLimit(user=jobs, job={"cpus": 5.0}, longest=3600.0),
    }


def test_of_two_names_of_a_limit_the_one_said_last_holds(tmp_path: Path) -> None:
    script = (
        "add qos q MaxCPUsPerUser=3 MaxTRESPerUser=cpu=9 MaxWall=10 MaxWallDurationPerJob=20\n"
        "modify qos q set MaxCPUsPerUser=5\n"
        "add account a Fairshare=3\nmodify account a set Share=7\n"
    )
    found = machine(tmp_path, sacctmgr_script=script)
    assert found.qos == {"q": ResourceLimit(user={"cpus": 5.0}, longest=1200.0)}
    assert shares_of(found) == {"a": 7.0}


def test_of_limits_by_account_the_widest_holds(tmp_path: Path) -> None:
    script = (
        "add account a,b\n"
        "add user ann Account=a MaxJobs=2 MaxWall=10\nadd user ann Account=b MaxJobs=4\n"
        "add user bob Account=a Partition=batch MaxJobs=1\nadd user bob Account=a\n"
    )
    found = machine(tmp_path, sacctmgr_script=script)
    assert found.users == {"ann": ResourceLimit(group={"jobs": 4.0}, longest=math.inf)}
    assert set(found.left_out) == {
        "user ann: its limits differ by account, and the widest hold for all.",
        "user bob: limits for partition batch alone have no effect.",
    }


def test_limits_that_slurm_is_not_told_to_enforce(tmp_path: Path) -> None:
    lines = ("ClusterName=site", NODES, PARTITION)
    found = machine_of_lines(tmp_path, *lines, sacctmgr_script=SCRIPT)
    assert found.qos["long"] == ResourceLimit(priority=5.0)
    assert (found.accounts, found.users) == ({}, {})
    assert shares_of(found) == {"physics": 30.0}
    assert found.left_out == (
        "AccountingStorageEnforce lacks limits: limits of accounts and users are not enforced.",
        "AccountingStorageEnforce lacks limits or qos: limits of a QOS are not enforced.",
    )


def test_limits_that_nobody_has_told(tmp_path: Path) -> None:
    partition = "PartitionName=p Nodes=ALL QOS=Night"
    found = machine(tmp_path, partition)
    assert [each.split(":")[0] for each in found.left_out] == [
        "limits and shares of accounts are not known",
        "limits of the QOS night are not known",
    ]


@pytest.mark.parametrize(
    ("said", "factor"),
    [("0", 0.0), ("0.500000", 0.5), ("2", 2.0), ("1.000000", 1.0), ("-1", 1.0)],
)
def test_the_usage_factor_of_a_qos(tmp_path: Path, said: str, factor: float) -> None:
    """It holds whatever limits Slurm enforces, and costs no sentence."""
    lines = ("ClusterName=site", NODES, PARTITION)
    script = f"add account a\nadd qos x UsageFactor={said}\n"
    found = machine_of_lines(tmp_path, *lines, sacctmgr_script=script)
    assert found.billing.factors == {"x": factor}
    assert found.left_out == ()


def test_a_usage_factor_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="UsageFactor=two: this is no factor"):
        machine(tmp_path, sacctmgr_script="add account a\nadd qos x UsageFactor=two\n")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("add qos x GrpTRESMins=cpu=100", "GrpTRESMins=cpu=100: used minutes are not limited."),
        ("add qos x Preempt=y", "Preempt=y: no job is preempted."),
        ("add qos x Flags=NoReserve", "Flags=NoReserve: flags of a QOS have no effect."),
        ("add qos x MaxNewThing=2", "MaxNewThing=2: not known here, so it has no effect."),
    ],
)
def test_what_is_not_modelled_is_told(tmp_path: Path, line: str, sentence: str) -> None:
    script = f"add account a\n{line}\n"
    (told,) = machine(tmp_path, sacctmgr_script=script).left_out
    assert told.endswith(sentence)


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("sacctmgr_script", "Name Priority\n", "sacctmgr.script:1: 'Name' is no verb of sacctmgr"),
        ("sacctmgr_script", "add qos 'x\n", "a quote is not closed"),
        ("sacctmgr_script", "modify user where account=a set MaxJobs=1\n", "names no user"),
        ("sacctmgr_script", "add qos x GrpTRES=cpu\n", "is no RESOURCE=NUMBER"),
        ("sacctmgr_script", "add account x Fairshare=much\n", "this is no whole number"),
        ("site_cfg", "Cluster - 'site'\nwhat\n", "site.cfg:2: this is no line of `sacctmgr dump`"),
        ("qos_txt", "Name|Priority\nlong|5|6\n", "qos.txt:2: this row has 3 values"),
        ("qos_txt", "long|5\n", "qos.txt:1: this row has 2 values and its header 0"),
    ],
)
def test_faults_are_one_sentence(tmp_path: Path, file: str, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        machine(tmp_path, **{file: text})
    assert "\n" not in str(caught.value)
