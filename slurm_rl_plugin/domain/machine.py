"""A machine as it is: kinds of nodes, partitions that may overlap, limits, and how it schedules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from slurm_rl_plugin.domain.billing import Billing
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES
from slurm_rl_plugin.domain.share_tree import Association
from slurm_rl_plugin.units import DAY, MINUTE, FloatArray

#: Columns of a log in which `Machine.entity` may find the names of a tree.
OF_USERS, OF_ACCOUNTS, OF_QUEUES = "users", "accounts", "queues"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """Nodes with equal resources."""

    name: str  #: their names as a hostlist, such as n[001-087]
    count: int  #: how many, > 0
    resources: tuple[float, ...]  #: of each, in the order of the machine's `resources`
    features: frozenset[str] = frozenset()  #: words that constraints may ask for
    weight: int = 1  #: of nodes that serve, those of less weight are taken first


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimit:
    """What jobs of a QOS, an account or a user may take at most; nothing said is no limit."""

    #: Of all its running jobs together, by resource ("nodes" and "jobs" too).
    group: Mapping[str, float] = field(default_factory=dict)
    user: Mapping[str, float] = field(default_factory=dict)  #: of each user's running jobs
    job: Mapping[str, float] = field(default_factory=dict)  #: of each job
    longest: float = math.inf  #: seconds that a job may ask for
    priority: float = 0.0  #: of a QOS, over 0
    usage_factor: float = 1.0  #: of a QOS, by which its jobs' bills are multiplied (UsageFactor)


@dataclass(frozen=True, slots=True)
class Admission:
    """Names that a partition admits, in lower case."""

    allowed: frozenset[str] | None = None  #: the only ones; None for all
    denied: frozenset[str] = frozenset()  #: never these

    def admits(self, name: str, *above: str) -> bool:
        """Whether a name is admitted; "", an unknown one, only where all are.

        Args:
            above: accounts above an account, which are denied with all below them; "" after the
                last one that is known.
        """
        if not name:
            return self.allowed is None and not self.denied
        is_allowed = self.allowed is None or name in self.allowed
        all_known = not self.denied or "" not in above
        return is_allowed and all_known and self.denied.isdisjoint((name, *above))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAccess:
    """Whose jobs may enter a partition that is up and closed to no group, host or user."""

    accounts: Admission = Admission()  #: AllowAccounts, DenyAccounts
    qos: Admission = Admission()  #: AllowQos, DenyQos
    fewest_nodes: int = 0  #: that a job must ask for (MinNodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePartition:
    """A queue and the nodes that serve it."""

    name: str  #: as jobs name it
    kinds: tuple[int, ...]  #: places of the nodes that serve it in the machine's `kinds`
    tier: int = 1  #: jobs of a higher one go first whatever the priorities (PriorityTier)
    priority_factor: int = 1  #: PriorityJobFactor
    longest: float = math.inf  #: seconds that a job may ask for (MaxTime); inf for no limit
    default_time: float = math.inf  #: seconds of a job that asks for no time; inf for `longest`
    default_memory_per_cpu: float = 0.0  #: MiB of a job that asks for no memory; 0 for none
    default_memory_per_node: float = 0.0  #: the same, by node
    whole_nodes: bool = False  #: each job gets its nodes for itself
    widest: float = math.inf  #: nodes that a job may have at most
    qos: str = ""  #: whose limits hold for all of its jobs; "" for none
    is_default: bool = False  #: jobs that name no partition go there
    #: Whose jobs it accepts; None where that is unknown, or needs more than a job's own request.
    access: PartitionAccess | None = None
    #: Weights of TRESBillingWeights by resource, memory by MiB; empty where CPUs count.
    billing: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillSettings:
    """SchedulerParameters that decide when jobs start; by default those of Slurm 26.05."""

    backfills: bool = True  #: SchedulerType is sched/backfill
    interval: float = 30.0  #: seconds between two passes of backfill (bf_interval)
    window: float = DAY  #: seconds into the future that it plans (bf_window)
    resolution: float = MINUTE  #: seconds of its grain (bf_resolution)
    most_jobs: int = 500  #: jobs that it looks at in a pass (bf_max_job_test)
    most_of_user: int = 0  #: of each user, 0 for no bound (bf_max_job_user)
    depth: int = 100  #: jobs that the main scheduler tries after each event (default_queue_depth)
    #: Seconds between two passes of the main scheduler over the whole queue (sched_interval).
    main_interval: float = MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityWeights:
    """Weights of priority/multifactor, points; ages and decay in seconds."""

    age: float = 0.0  #: PriorityWeight*
    fairshare: float = 0.0  #: PriorityWeight*
    size: float = 0.0  #: PriorityWeight*
    partition: float = 0.0  #: PriorityWeight*
    qos: float = 0.0  #: PriorityWeight*
    association: float = 0.0  #: PriorityWeight*
    resources: Mapping[str, float] = field(default_factory=dict)  #: PriorityWeightTRES by resource
    highest_age: float = 7 * DAY  #: seconds after which age adds no more (PriorityMaxAge)
    half_life: float = 7 * DAY  #: of past usage (PriorityDecayHalfLife); inf for none
    #: OpenPBS: usage keeps `decay_factor` of itself after each of these spans, and does not decay
    #: in between; 0 for the continuous decay of `half_life`.
    decay_every: float = 0.0
    decay_factor: float = 0.5  #: see `decay_every`
    dampening: float = 1.0  #: FairShareDampeningFactor, of classic fair-share alone
    reset_period: str = "NONE"  #: PriorityUsageResetPeriod
    #: Usage counts a run until its end; otherwise until the last calculation before it, as
    #: slurmctld does without limits in AccountingStorageEnforce.
    counts_ends: bool = False
    period: float = 5 * MINUTE  #: seconds between two calculations (PriorityCalcPeriod)
    favours_small: bool = False  #: PriorityFavorSmall
    flags: frozenset[str] = frozenset()  #: words of PriorityFlags
    formula: str = ""  #: OpenPBS's job_sort_formula, which then is the whole priority; "" for none


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Nodes, partitions, limits and settings of one cluster."""

    name: str = ""  #: of the cluster; "" if unknown
    resources: tuple[str, ...] = BASIC_RESOURCES  #: names of what nodes have, BASIC_RESOURCES first
    kinds: tuple[NodeKind, ...]  #: of its nodes, in the order in which Slurm numbers them
    partitions: tuple[MachinePartition, ...]  #: in the order of its configuration
    qos: Mapping[str, ResourceLimit] = field(default_factory=dict)  #: limits of each QOS by name
    #: accounts, users: limits of associations by name, of those that have any. `user` and `job` of
    #: an account hold where a user says nothing of its own; `group` of an account holds for all
    #: accounts below it together.
    accounts: Mapping[str, ResourceLimit] = field(default_factory=dict)
    users: Mapping[str, ResourceLimit] = field(default_factory=dict)
    #: The account above each account, "root" at the top.
    parent_of: Mapping[str, str] = field(default_factory=dict)
    account_of: Mapping[str, str] = field(default_factory=dict)  #: the default account of each user
    #: Users with an association that holds for one partition alone.
    bound_users: frozenset[str] = frozenset()
    #: Accounts and users with their shares and priorities; `ShareTree.of` them.
    associations: tuple[Association, ...] = ()
    #: OpenPBS: which column of a log has the names of the tree, each of them once: OF_USERS,
    #: OF_ACCOUNTS or OF_QUEUES. "" for accounts and their users (Slurm).
    entity: str = ""
    licences: Mapping[str, float] = field(default_factory=dict)  #: how many there are, by name
    counts_memory: bool = True  #: memory is given out as CPUs are (CR_*_Memory), or not counted
    whole_nodes: bool = False  #: nodes are given out whole (select/linear, or exclusive jobs)
    backfill: BackfillSettings = field(default_factory=BackfillSettings)  #: how it schedules
    weights: PriorityWeights = field(default_factory=PriorityWeights)  #: of its priorities
    left_out: tuple[str, ...] = ()  #: sentences on configured rules that are not modelled

    @property
    def capacity(self) -> FloatArray:
        """What all nodes have together, shape [resources]."""
        each = np.array([kind.resources for kind in self.kinds], dtype=np.float64)
        counts = np.array([kind.count for kind in self.kinds], dtype=np.float64)
        whole: FloatArray = counts @ each
        return whole

    @property
    def beside(self) -> FloatArray:
        """CPUs of the nodes that have any of each resource, shape [resources]."""
        each = np.array([kind.resources for kind in self.kinds], dtype=np.float64)
        cpus = np.array([kind.count * kind.resources[0] for kind in self.kinds], dtype=np.float64)
        found: FloatArray = cpus @ (each > 0.0)
        return found

    @property
    def billing(self) -> Billing:
        """What its jobs are billed for each second."""
        weights = {each.name: each.billing for each in self.partitions}
        factors = {name: each.usage_factor for name, each in self.qos.items()}
        return Billing(weights=weights, flags=self.weights.flags, factors=factors)

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return sum(kind.count for kind in self.kinds)
