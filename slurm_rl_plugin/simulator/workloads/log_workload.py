"""From an accounting log to a workload: classes, shares, estimates, jobs that cannot run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slurm_rl_plugin.accounting.port import OWN_BEGINNING, JobLog
from slurm_rl_plugin.domain import JobTable
from slurm_rl_plugin.domain.billing import Billing, billed_each_second
from slurm_rl_plugin.domain.goals import POINTS_A_DOUBLING, Goals
from slurm_rl_plugin.domain.job_class import JobClass, JobClassifier, JobDescription, words_for_us
from slurm_rl_plugin.domain.machine import OF_ACCOUNTS, Machine
from slurm_rl_plugin.domain.resources import (
    CPUS,
    MEMORY,
    shares_of_machine,
    weighed_processors,
)
from slurm_rl_plugin.domain.share_tree import UNKNOWN, Association, ShareTree
from slurm_rl_plugin.domain.utility_class import BUILT_IN
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RunTimeEstimate
from slurm_rl_plugin.simulator.kernel.workload import (
    NO_PAST,
    Workload,
    WorkloadHistory,
    nothing_past,
    numbered,
)
from slurm_rl_plugin.simulator.workloads.machine_load import (
    all_requests,
    fit_to_machine,
    limits_of_time,
    partition_of,
)
from slurm_rl_plugin.units import SHORT_JOB_RUN_TIME, BoolArray, FloatArray, IntArray
from slurm_rl_plugin.utility.time_utility import JobUtilities

#: Accounts kept by name where shares come from the log; the rest are summed up.
KEPT_ACCOUNTS = 4
OTHER_ACCOUNT = "_other"
#: Where shares come from.
GIVEN, OF_CLUSTER, PAST_WORK, SSHARE = "options", "cluster", "work", "sshare"
#: What to say of each.
SHARES_WORDS = {
    GIVEN: "Shares: as given.",
    OF_CLUSTER: "Shares: of the cluster's accounts.",
    SSHARE: "Shares: Slurm's own, by sshare.",
    PAST_WORK: "Shares: none configured; derived from past work, which promises nothing.",
}


def shares_of(
    log: JobLog, shares: Mapping[str, float] | None, charged: FloatArray | IntArray
) -> tuple[IntArray, tuple[str, ...], FloatArray]:
    """Account of each job as an index into the names, the names, and the share of each.

    Args:
        shares: account -> share, sum 1; None for each account's fraction of the log's work, the
            largest kept and the rest summed up.
        charged: what each job is charged for a second, shape [n].
    """
    work = log.run_time * charged
    totals = np.bincount(log.account, weights=work, minlength=len(log.accounts))
    of_account = dict(zip(log.accounts, totals.tolist(), strict=True))
    if shares is None:
        largest = sorted(of_account, key=lambda name: -of_account[name])[:KEPT_ACCOUNTS]
        whole = sum(of_account.values()) or 1.0
        shares = {name: of_account[name] / whole for name in largest}
        if len(of_account) > KEPT_ACCOUNTS:
            shares[OTHER_ACCOUNT] = max(1.0 - sum(shares.values()), 0.0)
    check_shares(shares)
    names = tuple(shares)
    if any(name not in shares for name in log.accounts) and OTHER_ACCOUNT not in shares:
        names = (*names, OTHER_ACCOUNT)
    index_of = {name: index for index, name in enumerate(names)}
    other = index_of.get(OTHER_ACCOUNT, 0)
    remap = np.array([index_of.get(name, other) for name in log.accounts], dtype=np.int64)
    vector = np.array([max(shares.get(name, 0.0), 0.0) for name in names])
    return remap[log.account], names, vector / vector.sum()


def check_shares(shares: Mapping[str, float]) -> None:
    """Refuse shares that are negative or do not sum to 1 within 1e-6."""
    total = sum(shares.values())
    if any(not 0.0 <= value <= 1.0 + 1e-6 for value in shares.values()) or abs(total - 1) > 1e-6:
        text = ", ".join(f"{name}={value:g}" for name, value in shares.items())
        raise ConfigurationError(
            f"shares {text} sum to {total:g}: give one share for each account, together 1."
        )


def with_accounts(log: JobLog, account_of: Mapping[str, str]) -> JobLog:
    """The log with other accounts for some users; jobs of users who are not there keep theirs."""
    names = list(dict.fromkeys([*log.accounts, *account_of.values()]))
    place = {name: index for index, name in enumerate(names)}
    given = [place[account_of[user]] if user in account_of else -1 for user in log.users]
    of_job = np.array(given, dtype=np.int64)[log.user]
    used, account = np.unique(np.where(of_job < 0, log.account, of_job), return_inverse=True)
    return replace(log, account=account, accounts=tuple(names[index] for index in used))


def accounts_with_jobs(log: JobLog) -> list[str]:
    """Names of the accounts that have jobs in the log."""
    return [log.accounts[place] for place in np.unique(log.account)]


def accounts_with_shares(machine: Machine) -> set[str]:
    """Names of the accounts of a machine that have shares of their own."""
    return {each.account for each in machine.associations if each.parent and each.share is not None}


def tree_of_entities(machine: Machine, names: Sequence[str]) -> tuple[ShareTree, IntArray]:
    """OpenPBS's tree with unnamed entities in the group `unknown`, and the place of each entity."""
    known = ShareTree.of(machine.associations).entities
    lacking = [Association(UNKNOWN, name) for name in names if name not in known]
    tree = ShareTree.of([*machine.associations, *lacking])
    places = tree.entities
    return tree, np.array([places[name] for name in names], dtype=np.int64)


def shares_at(machine: Machine, accounts: Iterable[str]) -> dict[str, float] | None:
    """Share of each account, sum 1: its part of its siblings', times that of the account above.

    As sshare's NormShares, of the accounts that are asked for alone. None where the machine does
    not know every account, or gives none a share; under OpenPBS, where shares do not belong to
    accounts.
    """
    names = list(accounts)
    if machine.entity == OF_ACCOUNTS:
        tree, places = tree_of_entities(machine, names)
        wanted = dict(zip(names, places.tolist(), strict=True))
    elif machine.entity:
        return None
    else:
        tree = ShareTree.of(machine.associations)
        known = tree.places
        wanted = {name: known.get((name.lower(), ""), 0) for name in names}
    fraction = tree.ranked().fraction
    if not wanted or any(at == 0 or np.isnan(tree.shares[at]) for at in wanted.values()):
        return None
    whole = sum(float(fraction[at]) for at in wanted.values())
    return {name: float(fraction[at]) / whole for name, at in wanted.items()} if whole > 0 else None


#: If a larger part of the jobs has no start, the log is at fault and not single records.
MOST_WITHOUT_START = 0.05
#: The reason that a report counts.
NO_START = "no recorded start"


def jobs_with_starts(prepared: PreparedLog) -> PreparedLog:
    """The log without the few jobs whose start is unknown; they count as dropped.

    A log with a larger part than `MOST_WITHOUT_START` of such jobs is returned unchanged, so that
    the caller can refuse it.
    """
    missing = np.isnan(prepared.log.start)
    count = int(missing.sum())
    if not 0 < count <= MOST_WITHOUT_START * len(missing):
        return prepared
    kept = select_prepared(prepared, np.flatnonzero(~missing))
    return replace(kept, dropped={**prepared.dropped, NO_START: count})


def billed_on_machine(log: JobLog, machine: Machine) -> FloatArray | None:
    """Billing units of each job for a second, shape [n]; None where it bills CPUs alone.

    Each job is of a partition of the machine. A job with whole nodes is billed for the CPUs and
    generic resources that each node of its partition has at least, and for the memory that it asks
    for, as in Slurm.
    """
    billing = machine.billing
    if billing.counts_cpus:
        return None
    partition, asked = partition_of(log, machine), all_requests(log, machine)
    alone = np.array([each.whole_nodes or machine.whole_nodes for each in machine.partitions])
    whole = asked.exclusive | alone[partition]
    if whole.any():
        each = np.array([kind.resources for kind in machine.kinds], dtype=np.float64)
        least = np.zeros((len(machine.partitions), len(asked.names)))  # of any node of each
        for place, served in enumerate(machine.partitions):
            if served.kinds:
                least[place, : each.shape[1]] = each[list(served.kinds)].min(axis=0)
        if MEMORY in machine.resources:  # which is billed as asked
            least[:, machine.resources.index(MEMORY)] = 0.0
        given = least[partition] * np.maximum(asked.nodes, 1)[:, None]
        total = np.where(whole[:, None], np.maximum(asked.total, given), asked.total)
        asked = replace(asked, total=total)
    processors = np.maximum(log.processors, np.ceil(asked.of(CPUS))).astype(np.int64)
    names = [each.name for each in machine.partitions]
    return billed_each_second(billing, names, partition, processors, asked, log.qos)


def billed_in_log(log: JobLog, billing: Billing | None) -> FloatArray | None:
    """The same from the log alone: CPUs that jobs got, other resources that they asked for."""
    if billing is None or billing.counts_cpus:
        return None
    return billed_each_second(
        billing, log.partitions, log.partition, log.processors, log.requests, log.qos
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentRuns:
    """The last runs of each job's user when the job was submitted; shape [n]."""

    predicted: FloatArray  #: mean of the last two run times, at most the request, seconds
    rate: FloatArray  #: mean of 1 / max(run time, 10 s)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedLog:
    """A log made ready to be simulated.

    The scheduler sees a job from the moment it is eligible: submissions in `log` are these times.
    They differ only in a log with begin times, dependencies or holds.
    """

    log: JobLog  #: the jobs that fit the machine, in the order in which they became eligible
    interactive: BoolArray  #: job class, shape [n]
    class_rule: str  #: how the class was found, for the report
    account: IntArray  #: index into `accounts`, shape [n]
    accounts: tuple[str, ...]  #: names
    shares: FloatArray  #: shape [accounts], sum 1
    shares_from: str  #: a key of SHARES_WORDS
    capacity: int  #: processors of the machine
    #: Processors of each of the log's partitions if they share none; () where all share.
    partition_capacities: tuple[int, ...] = ()
    dropped: dict[str, int] = field(default_factory=dict)  #: reason -> jobs left out
    past: WorkloadHistory = NO_PAST  #: the users of the jobs, and what is known of earlier runs
    recent_runs: RecentRuns | None = None  #: users' last runs; None if not asked for
    eligible_after: FloatArray | None = None  #: seconds after the submission, shape [n], or None
    machine: Machine | None = None  #: whose nodes the jobs run on; None for a pool of processors
    #: What the site bills each job for a second, shape [n]; None where it counts processors.
    billed: FloatArray | None = None
    #: When the log begins, for rules that count from there: 0 where its times do, else the first
    #: arrival; windows keep that of the whole; seconds.
    begin: float = 0.0
    utilities: JobUtilities | None = None  #: classes of the site's own, if any

    @property
    def charged(self) -> FloatArray | IntArray:
        """What each job's account is charged for a second; shape [n]."""
        return self.log.processors if self.billed is None else self.billed

    @property
    def requested(self) -> FloatArray:
        """Requested seconds; the run time where a job asked for none (definitions); shape [n]."""
        limit = self.log.time_limit
        return np.where(np.isfinite(limit) & (limit > 0), limit, self.log.run_time)

    def goals(self, wanted: Goals) -> Goals:
        """What the site wants; shares that are derived from past work do not count."""
        if self.shares_from == PAST_WORK:
            return replace(wanted, shares=0.0)
        if self.shares_from == GIVEN and wanted.shares is None:
            return replace(wanted, shares=POINTS_A_DOUBLING)
        return wanted.resolved(self.shares)

    def jobs(self) -> JobTable:
        """The columns of ordering rules; on a machine of nodes, with the size of jobs."""
        jobs = JobTable.classed(self.log, interactive=self.interactive, account=self.account)
        if self.machine is None:
            return jobs
        machine = self.machine
        weighed = weighed_processors(
            jobs.size, jobs.requests, machine.resources, machine.capacity, machine.beside
        )
        return replace(jobs, weighed=weighed)

    def workload(self, estimates: RunTimeEstimate | None) -> Workload:
        """The workload as a policy believes it; None is the oracle, which knows the run times.

        If a job asked for no time, its run time replaces the request (definitions).
        """
        log = self.log
        known = np.isfinite(log.time_limit) & (log.time_limit > 0)
        estimate = log.run_time
        if estimates is not None:
            estimate = estimates.estimate(self.requested, self.interactive)
        jobs, machine, asked = self.jobs(), self.machine, None
        if machine is not None:
            asked = shares_of_machine(
                jobs.processors, jobs.requests, machine.resources, machine.capacity
            )
        return Workload.of(
            submit=jobs.submit,
            processors=jobs.processors,
            account=jobs.account,
            interactive=jobs.interactive,
            weighed=jobs.weighed,
            run_time=log.run_time,
            estimate=np.asarray(estimate, dtype=np.float64),
            time_limit=np.where(known, log.time_limit, estimate),
            shares=self.shares,
            past=self.past,
            billed=self.billed,
            asked=asked,
        )


def prepare_log(
    log: JobLog,
    *,
    capacity: int | None = None,
    shares: Mapping[str, float] | None = None,
    classifier: JobClassifier | None = None,
    whole_nodes_of: int = 1,
    kill_at_limit: bool = False,
    partitions: Mapping[str, int] | None = None,
    machine: Machine | None = None,
    billing: Billing | None = None,
) -> PreparedLog:
    """Classify jobs, find shares and leave out jobs wider than the machine.

    Args:
        capacity: processors; by default those of the log.
        shares: share of each account, sum 1; by default those of the machine's accounts, or else
            each account's fraction of the log's work, with all but the four largest as `_other`.
        classifier: job-class rules; by default run time < 900 s for SWF logs (definitions), and
            the default rules otherwise; by the run time that the log records.
        whole_nodes_of: processors of a node where jobs get whole nodes; a job then occupies the
            next multiple.
        kill_at_limit: end jobs at their requested time, as most sites do; otherwise their run time
            is that of the log.
        partitions: processors of each partition by its name in the log, where partitions share
            none; jobs of others are left out. The capacity is then their sum.
        machine: whose nodes the jobs run on, in place of `capacity` and `partitions`.
        billing: of the site; that of the machine goes first.

    Raises:
        ConfigurationError: no capacity known, no job left, or shares that do not fit.
    """
    on_nodes: dict[str, int] = {}
    if machine is not None:
        log, on_nodes = fit_to_machine(log, machine)
        log = replace(
            log,
            time_limit=limits_of_time(log, machine),
            requests=all_requests(log, machine),
        )
        capacity, partitions = int(machine.capacity[0]), None
    capacity = sum(partitions.values()) if partitions else capacity or log.processors_available
    if not capacity or capacity < 1:
        raise ConfigurationError(
            "the log does not say how many processors the machine has: give --processors."
        )
    rounded = -(-log.processors // whole_nodes_of) * whole_nodes_of
    log = replace(log, processors=rounded)
    log, dropped, capacities = _jobs_that_fit(log, capacity, partitions)
    if len(log) == 0:
        reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items())
        raise ConfigurationError(
            f"no job of the log fits the machine of {capacity} processors"
            + (f" ({reasons})." if reasons else ": it has none.")
        )
    log, eligible_after = _from_eligibility(log)
    interactive, class_rule, utilities = classify_log(log, classifier)
    if kill_at_limit:
        log = replace(log, run_time=np.fmin(log.run_time, log.time_limit))
    billed = billed_on_machine(log, machine) if machine else billed_in_log(log, billing)
    charged = log.processors if billed is None else billed
    own = None
    if shares is None and machine is not None:
        own = shares_at(machine, accounts_with_jobs(log))
    account, accounts, share_vector = shares_of(log, shares or own, charged)
    return PreparedLog(
        log=log,
        interactive=interactive,
        class_rule=class_rule,
        account=account,
        accounts=accounts,
        shares=share_vector,
        shares_from=GIVEN if shares is not None else PAST_WORK if own is None else OF_CLUSTER,
        capacity=capacity,
        partition_capacities=capacities,
        dropped={**on_nodes, **dropped},
        past=told_apart(log),
        eligible_after=eligible_after,
        machine=machine,
        billed=billed,
        begin=0.0 if log.kind in OWN_BEGINNING else float(log.submit[0]),
        utilities=utilities,
    )


def _from_eligibility(log: JobLog) -> tuple[JobLog, FloatArray | None]:
    """The log with jobs that come when they are eligible, and how long after their submission.

    No scheduler may start a job before its begin time, a dependency's end or the release of a hold.
    """
    later = log.eligible - log.submit
    if not (later > 0).any():
        return log, None
    order = np.argsort(log.eligible, kind="stable")
    log = log.select(order)
    return replace(log, submit=log.eligible), later[order]


def told_apart(log: JobLog) -> WorkloadHistory:
    """Users and their templates: jobs that ask for the same processors and time limit."""
    limit = np.nan_to_num(log.time_limit, nan=-1.0)
    user = np.unique(log.user, return_inverse=True)[1].astype(np.int64)
    template = numbered(user, log.processors, limit)
    return nothing_past(user, template, log.time_limit, log.processors)


def _jobs_that_fit(
    log: JobLog, capacity: int, partitions: Mapping[str, int] | None
) -> tuple[JobLog, dict[str, int], tuple[int, ...]]:
    """Jobs that can run at all, how many cannot and why, and each partition's processors."""
    if not partitions:
        reasons = {"wider than the machine": log.processors > capacity}
        capacities: tuple[int, ...] = ()
    else:
        unknown = [name for name in partitions if name not in log.partitions]
        if unknown:
            raise ConfigurationError(
                f"the log has no partition {unknown[0]!r}: its partitions are "
                f"{', '.join(map(repr, log.partitions))}."
            )
        capacities = tuple(partitions.get(name, 0) for name in log.partitions)
        room = np.array(capacities)[log.partition]
        reasons = {
            "of a partition without processors": room == 0,
            "wider than its partition": (room > 0) & (log.processors > room),
        }
    dropped = {reason: int(each.sum()) for reason, each in reasons.items() if each.any()}
    keep = ~np.logical_or.reduce(list(reasons.values()))
    return log.select(keep), dropped, capacities


def select_prepared(prepared: PreparedLog, index: IntArray) -> PreparedLog:
    """The chosen jobs of a prepared log with the shares of the whole."""
    recent, later, billed = prepared.recent_runs, prepared.eligible_after, prepared.billed
    utilities = prepared.utilities
    if recent is not None:
        recent = RecentRuns(predicted=recent.predicted[index], rate=recent.rate[index])
    return replace(
        prepared,
        log=prepared.log.select(index),
        interactive=prepared.interactive[index],
        account=prepared.account[index],
        dropped={},
        past=prepared.past.of_jobs(index),
        recent_runs=recent,
        eligible_after=None if later is None else later[index],
        billed=None if billed is None else billed[index],
        utilities=None if utilities is None else utilities.select(index),
    )


def classify_log(
    log: JobLog, classifier: JobClassifier | None
) -> tuple[BoolArray, str, JobUtilities | None]:
    """Whether each job is interactive, how that was found, and the site's own classes."""
    if classifier is None and log.kind == "swf":
        return log.run_time < SHORT_JOB_RUN_TIME, f"run time < {SHORT_JOB_RUN_TIME:g} s", None
    rules = classifier or JobClassifier()
    seen: dict[tuple[JobDescription, float], JobClass] = {}
    found: list[JobClass] = []
    for place in range(len(log)):
        job = _description(log, place)
        since = float(log.eligible[place]) if job.words else 0.0
        if (job, since) not in seen:
            seen[job, since] = rules.job_class(job, since)
        found.append(seen[job, since])
    interactive = np.array([each.interactive for each in found])
    of_job = np.array([each.number for each in found])
    allowed = np.array([each.allowed for each in found])
    own = None if rules.classes == BUILT_IN else JobUtilities.of(rules.classes, of_job, allowed)
    return interactive, "; ".join(str(rule) for rule in rules.rules), own


def _description(log: JobLog, place: int) -> JobDescription:
    line = log.submit_line[place]
    program = next(iter(line.split()), "").rsplit("/", 1)[-1]
    limit = float(log.time_limit[place])
    return JobDescription(
        partition=log.partitions[log.partition[place]],
        qos=log.qos[place],
        name=log.job_name[place],
        time_limit=limit,
        has_batch_script=None if program[:1] in ("", "-") else program == "sbatch",
        account=log.accounts[log.account[place]],
        user=log.users[log.user[place]] if log.user[place] >= 0 else "",
        words=words_for_us(line.partition("--comment")[2]),
    )
