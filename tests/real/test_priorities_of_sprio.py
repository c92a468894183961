"""Our priority of 520 pending jobs is that of `sprio` and `squeue`, factor by factor."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.slurm.answers.machine import SSHARE, parse_tree
from slurm_rl_plugin.batch_systems.slurm.site_factor import PRIORITY_FORMAT
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.domain.share_tree import ShareTree
from slurm_rl_plugin.domain.site_priority import association_factors, fixed_points
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.units import FloatArray
from tests.real.conftest import StartSlurm
from tests.real.private_cluster import Account, ClusterPlan, PrivateSlurm
from tests.reference.slurm_priority import (
    BilledJobs,
    age_factors,
    fair_share_factors,
    usage_at,
    whole_points,
)

pytestmark = pytest.mark.real

JOBS, TIMES = 520, 3
#: Billing units of a CPU for each second: RawUsage is a whole number, and decays fast here.
BILLED = 100_000
#: Users with a job that runs from the first calculation on, and its CPUs. slurmctld goes through
#: jobs in the order of submission, so that classic fair-share counts a job for those after it.
RUNNING = {"prio02": 1, "prio05": 4, "prio18": 3}


def names(first: int, last: int) -> tuple[str, ...]:
    return tuple(f"prio{number:02}" for number in range(first, last + 1))


#: Three levels; an account without users of its own, one that takes its parent's share, two that
#: tie (no share, but usage), one without usage, a user next to sub-accounts. Of accounts that tie,
#: 22.05 takes the one created last first; accounts are created here in reverse order of names.
ACCOUNTS = {
    "teaching": Account(share=15, users=names(18, 20)),
    "science": Account(share=40, users=()),
    "physics": Account(share=3, users=names(8, 8), parent="science"),
    "theory": Account(share=2, users=names(1, 4), parent="physics"),
    "lab": Account(share=1, users=names(5, 7), parent="physics"),
    "chemistry": Account(share="parent", users=(), parent="science"),
    "organic": Account(share=2, users=names(9, 11), parent="chemistry"),
    "industry": Account(share=20, users=()),
    "steel": Account(share=0, users=names(12, 14), parent="industry"),
    "cars": Account(share=0, users=names(15, 17), parent="industry"),
    "idle": Account(share=10, users=names(21, 23)),
    "guests": Account(share=10, users=names(24, 24)),
}
ACCOUNT_OF = {user: name for name, account in ACCOUNTS.items() for user in account.users}
PLAN = ClusterPlan(
    nodes=3,
    processors_per_node=8,
    accounts=ACCOUNTS,
    options={
        "SelectTypeParameters": "CR_CPU_Memory",
        "DefMemPerCPU": "100",
        "AccountingStorageEnforce": "associations,limits,qos",
        "PriorityCalcPeriod": "5",
        "PriorityDecayHalfLife": "1",
        "PriorityMaxAge": "1",
        "FairShareDampeningFactor": "3",
        "PriorityWeightAge": "3000",
        "PriorityWeightAssoc": "700",
        "PriorityWeightFairshare": "10000",
        "PriorityWeightJobSize": "2000",
        "PriorityWeightPartition": "1100",
        "PriorityWeightQOS": "900",
        "PriorityWeightTRES": "CPU=1300,Mem=1700,Node=400",
    },
    partitions=(
        f"PartitionName=work Nodes=n3 Default=YES TRESBillingWeights=CPU={BILLED}",
        # jobs of a partition that is down do not age, so their nodes are drained instead
        "PartitionName=wide Nodes=n[1-2] PriorityJobFactor=30",
        "PartitionName=narrow Nodes=n1 PriorityJobFactor=13",
    ),
)
#: Words of sacctmgr, once it runs.
SETTINGS = (
    ("add", "qos", "high,low"),
    ("modify", "qos", "high", "set", "priority=100"),
    ("modify", "qos", "low", "set", "priority=30"),
    ("modify", "user", ",".join(ACCOUNT_OF), "set", "qos=normal,high,low"),
    ("modify", "user", "prio01,prio05,prio12", "set", "fairshare=7", "priority=40"),
    ("modify", "user", "prio02,prio10,prio22", "set", "fairshare=parent"),
    ("modify", "user", "prio03,prio19", "set", "fairshare=3", "priority=100"),
    ("modify", "user", "prio20", "set", "fairshare=0"),
)
CLASSIC = (
    "PriorityFlags=NO_FAIR_TREE,SMALL_RELATIVE_TO_TIME,NO_NORMAL_QOS\nPriorityFavorSmall=YES\n"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a pending job asks for; memory in MiB of each node, time in minutes."""

    user: str
    partition: str
    qos: str
    nodes: int
    cpus: int
    memory: int
    minutes: int
    nice: int

    @property
    def command(self) -> str:
        return (
            f"sbatch --parsable --uid={self.user} --account={ACCOUNT_OF[self.user]} "
            f"--partition={self.partition} --qos={self.qos} --nodes={self.nodes} "
            f"--ntasks={self.cpus} --mem={self.memory} --time={self.minutes} --nice={self.nice} "
            "--chdir=/ --output=/dev/null --wrap='sleep 9'\n"
        )


def drawn(rng: random.Random) -> Asked:
    partition = rng.choice(("wide", "narrow"))
    nodes = rng.randint(1, 2) if partition == "wide" else 1
    return Asked(
        user=rng.choice(sorted(ACCOUNT_OF)),
        partition=partition,
        qos=rng.choice(("normal", "high", "low")),
        nodes=nodes,
        cpus=rng.randint(nodes, 8 * nodes),
        memory=rng.randint(1, 16000),
        minutes=rng.randint(1, 1000),
        nice=rng.choice((0, 0, 1, 37, 500, -250)),
    )


@dataclass(frozen=True, slots=True)
class Seen:
    """What a slurmctld said after one calculation.

    Attributes:
        at: time of the calculation, seconds since the epoch.
        usage: RawUsage by place in the tree of sacctmgr, shape [n].
        priorities: of `squeue`, by job.
        terms: of `sprio`, the columns of PRIORITY_FORMAT by job.
    """

    at: int
    usage: FloatArray
    priorities: dict[int, int]
    terms: dict[int, list[str]]

    @property
    def fair_shares(self) -> tuple[str, ...]:
        """Points of each job."""
        return tuple(self.terms[job][6] for job in sorted(self.terms))


class Site:
    """A cluster with usage, running jobs, and pending ones that cannot start."""

    def __init__(self, cluster: PrivateSlurm) -> None:
        self.cluster = cluster
        for words in SETTINGS:
            cluster.run("sacctmgr", "-i", *words)
        cluster.run("scontrol", "update", "nodename=n[1-2]", "state=drain", "reason=full")
        rng = random.Random(51)
        for user, account in ACCOUNT_OF.items():
            if account != "idle":
                cpus, seconds = rng.randint(1, 4), rng.randint(2, 5)
                cluster.submit(user=user, account=account, processors=cpus, seconds=seconds)
        cluster.wait_empty(60)
        self.running = [
            cluster.submit("--hold", user=user, account=ACCOUNT_OF[user], processors=cpus)
            for user, cpus in RUNNING.items()
        ]
        self.asked = [drawn(rng) for _ in range(JOBS)]
        script = "".join(each.command for each in self.asked)
        told = cluster.run("sh", stdin=script, timeout=200).stdout.split()
        self.jobs = [int(number) for number in told]
        assert len(self.jobs) == JOBS
        self.factors = np.where(np.arange(JOBS) % 40 == 0, 777, 0)
        chosen = np.array(self.jobs)[self.factors > 0]
        factors = "".join(f"update jobid={job} sitefactor=777\n" for job in chosen)
        cluster.run("scontrol", stdin=factors)
        # limits on accruing are checked by the scheduler, and a job has no age before
        ages = ("squeue", "-h", "-t", "PD", "-O", "AccrueTime")
        cluster.wait_until(
            lambda: cluster.run(*ages).stdout.count("N/A") == len(RUNNING), 60, "ages"
        )
        self.tree = ShareTree.of(self.machine().associations)
        self.places = np.array([self.place(each.user) for each in self.asked])

    def place(self, user: str) -> int:
        return self.tree.places[ACCOUNT_OF[user], user]

    def usage(self) -> FloatArray:
        """RawUsage; sshare prints the same tree as sacctmgr, in another order."""
        said = self.cluster.run(*SSHARE)
        tree, usage = parse_tree(said.stdout)
        assert outline(tree) == outline(self.tree)
        return np.array([usage[tree.places[pair]] for pair in self.tree.places])

    def times(self, what: str, state: str) -> dict[int, float]:
        """A time of each job of a state, seconds since the epoch."""
        said = self.cluster.run(
            *("squeue", "-h", "-t", state, "-O", f"JobID:20,{what}:20"),
            env={"SLURM_TIME_FORMAT": "%s"},
        )
        rows = (line.split() for line in said.stdout.splitlines())
        return {int(job): float(when) for job, when in rows if when != "N/A"}

    def calculated(self) -> int:
        """When slurmctld calculated priorities last, as it keeps it for its next start."""
        path = self.cluster.directory / "state" / "priority_last_decay_ran"
        return int.from_bytes(path.read_bytes()[:8], "big")

    def seen(self) -> Seen:
        """What slurmctld says after a start, which begins with a calculation."""
        before = self.calculated()
        self.cluster.restart("slurmctld")
        self.cluster.wait_until(lambda: self.calculated() > before, 20, "a calculation")
        sprio = self.cluster.run("sprio", "-h", "-o", PRIORITY_FORMAT).stdout
        squeue = self.cluster.run("squeue", "-h", "-t", "PD", "-o", "%i|%Q").stdout
        rows = (line.split("|") for line in sprio.splitlines())
        return Seen(
            at=self.calculated(),
            usage=self.usage(),
            priorities={int(j): int(p) for j, p in (r.split("|") for r in squeue.splitlines())},
            terms={int(job): terms for job, *terms in rows},
        )

    def machine(self) -> Machine:
        """What slurm.conf and sacctmgr say."""
        folder = Path(self.cluster.directory, "etc")
        self.cluster.run("sacctmgr", "dump", "trial", f"file={folder}/trial.cfg")
        qos = self.cluster.run("sacctmgr", "-P", "show", "qos").stdout
        folder.joinpath("qos.txt").write_text(qos)
        return read_machine(folder)

    def runs(self) -> BilledJobs:
        """Let the held jobs run."""
        cluster = self.cluster
        cluster.run("scontrol", "release", ",".join(map(str, self.running)))
        cluster.wait_until(
            lambda: len(self.times("StartTime", "R")) == len(RUNNING), 20, "running jobs"
        )
        start = self.times("StartTime", "R")
        return BilledJobs(
            association=np.array([self.place(user) for user in RUNNING]),
            billed=np.array(list(RUNNING.values())) * float(BILLED),
            start=np.array([start[job] for job in self.running]),
            end=np.full(len(RUNNING), np.inf),
        )


def outline(tree: ShareTree) -> dict[tuple[str, str], tuple[str, str]]:
    """Account above and share of each association but the root."""
    return {
        pair: (tree.accounts[tree.parent[at]], str(tree.shares[at]))
        for pair, at in tree.places.items()
        if at
    }


def requests(asked: list[Asked]) -> ResourceRequests:
    nodes = np.array([each.nodes for each in asked])
    rows = [(each.cpus, each.memory * each.nodes, 0) for each in asked]
    return ResourceRequests.of_totals(np.array(rows, dtype=np.float64), nodes=nodes)


def check(site: Site, machine: Machine, seen: Seen, usage: FloatArray, before: FloatArray) -> None:
    """Every factor and the sum of every job, within a point."""
    asked, weights = site.asked, machine.weights
    partitions = [each.name for each in machine.partitions]
    fixed = fixed_points(
        machine,
        requests(asked),
        np.array([partitions.index(each.partition) for each in asked]),
        [each.qos for each in asked],
        np.array([60.0 * each.minutes for each in asked]),
        association_factors(weights, site.tree)[site.places],
    )
    accrued = site.times("AccrueTime", "PD")
    since = np.array([accrued[job] for job in site.jobs])
    nice = np.array([each.nice for each in asked])
    age = weights.age * age_factors(weights, since, seen.at)
    factors = fair_share_factors(weights, site.tree, usage, before)
    shared = weights.fairshare * factors[site.places]
    ours = whole_points(fixed.total + age + shared + site.factors - nice)
    terms = [seen.terms[job] for job in site.jobs]
    theirs = np.array([[float(each) for each in row[1:10]] for row in terms]).T
    columns = (
        ours,
        site.factors,
        nice,
        age,
        fixed.association,
        shared,
        fixed.size,
        fixed.partition,
    )
    for name, one, other in zip(
        ("total", "site", "nice", "age", "association", "fairshare", "size", "partition", "qos"),
        (*columns, fixed.qos),
        theirs,
        strict=True,
    ):
        assert np.abs(one - other).max() <= 1.0, name
    resources = [dict(word.split("=") for word in row[10].split(",")) for row in terms]
    for name, points in fixed.resources.items():
        word = {"cpus": "cpu", "memory": "mem", "nodes": "node"}[name]
        told = np.array([float(each.get(word, 0)) for each in resources])
        assert np.abs(points - told).max() <= 1.0, name
    assert np.abs(ours - [seen.priorities[job] for job in site.jobs]).max() <= 1


def test_priorities_are_those_of_sprio_and_squeue(start_slurm: StartSlurm) -> None:
    site = Site(start_slurm(PLAN))
    last = site.seen()
    usage = last.usage
    check(site, site.machine(), last, usage, usage)  # of the usage that sshare prints
    runs = site.runs()
    for classic in (False, True):
        if classic:
            path = site.cluster.directory / "etc" / "slurm.conf"
            path.write_text(path.read_text() + CLASSIC)
        machine, shown = site.machine(), set() if classic else {last.fair_shares}
        for _ in range(TIMES if classic else TIMES - 1):
            time.sleep(5)
            now = site.seen()
            before = usage  # predicted from here on
            usage = usage_at(machine.weights, site.tree, before, runs, last.at, now.at)
            np.testing.assert_allclose(usage, now.usage, rtol=1e-4, atol=5.0)
            check(site, machine, now, usage, before)
            last = now
            shown.add(now.fair_shares)
        assert len(shown) > 1, "no fair share has changed"
