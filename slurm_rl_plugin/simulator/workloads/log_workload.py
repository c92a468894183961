"""From an accounting log to a workload: job classes, shares, estimates, jobs that cannot run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from slurm_rl_plugin.accounting.port import OWN_BEGINNING, JobLog
from slurm_rl_plugin.domain import JobTable
from slurm_rl_plugin.domain.billing import Billing, billed_each_second
from slurm_rl_plugin.domain.goals import POINTS_A_DOUBLING, Goals
from slurm_rl_plugin.domain.job_class import JobClass, JobClassifier, JobDescription, words_for_us
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.resources import (
    CPUS,
    MEMORY,
    shares_of_machine,
    weighed_processors,
)
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
from slurm_rl_plugin.simulator.workloads.log_shares import (
    GIVEN,
    OF_CLUSTER,
    PAST_WORK,
    accounts_with_jobs,
    shares_at,
    shares_of,
)
from slurm_rl_plugin.simulator.workloads.machine_load import (
    all_requests,
    fit_to_machine,
    limits_of_time,
    partition_of,
)
from slurm_rl_plugin.units import SHORT_JOB_RUN_TIME, BoolArray, FloatArray, IntArray
from slurm_rl_plugin.utility.time_utility import JobUtilities

#: Where more of the jobs have no start, the log is at fault and not single records of it.
MOST_WITHOUT_START = 0.05
#: The reason that a report counts.
NO_START = "no recorded start"


def jobs_with_starts(prepared: PreparedLog) -> PreparedLog:
    """The log without the few jobs whose start it does not tell, which are counted as dropped.

    A log that lacks more than `MOST_WITHOUT_START` of them is given back as it is, for whoever
    needs the starts to refuse.
    """
    missing = np.isnan(prepared.log.start)
    count = int(missing.sum())
    if not 0 < count <= MOST_WITHOUT_START * len(missing):
        return prepared
    kept = select_prepared(prepared, np.flatnonzero(~missing))
    return replace(kept, dropped={**prepared.dropped, NO_START: count})


def billed_on_machine(log: JobLog, machine: Machine) -> FloatArray | None:
    """Billing units of each job for a second, shape [n]; None where it bills CPUs alone.

    Each job is of a partition of the machine. One that gets whole nodes is billed for the CPUs and
    generic resources that any node of its partition has at least, and for the memory that it asks
    for, as Slurm does.
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
    """The same by what the log alone tells: CPUs that jobs got and what else they asked for."""
    if billing is None or billing.counts_cpus:
        return None
    return billed_each_second(
        billing, log.partitions, log.partition, log.processors, log.requests, log.qos
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentRuns:
    """What the last runs of each job's user told when the job was submitted; shape [n]."""

    predicted: FloatArray  #: mean of the last two run times, at most the request, seconds
    rate: FloatArray  #: mean of 1 / max(run time, 10 s)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedLog:
    """A log made ready to be simulated.

    A job is there for the scheduler from the moment it is eligible: in `log`, submits are these
    times. Only a log that tells of begin times, dependencies or holds has other ones.
    """

    log: JobLog  #: the jobs that fit the machine, in the order in which they became eligible
    interactive: BoolArray  #: job class, shape [n]
    class_rule: str  #: how the class was found, for the report
    account: IntArray  #: index into `accounts`, shape [n]
    accounts: tuple[str, ...]  #: names
    shares: FloatArray  #: shape [accounts], sum 1
    shares_from: str  #: one of `log_shares.SHARES_WORDS`
    capacity: int  #: processors of the machine
    #: Processors of each of the log's partitions if they share none; () where all share.
    partition_capacities: tuple[int, ...] = ()
    dropped: dict[str, int] = field(default_factory=dict)  #: reason -> jobs left out
    past: WorkloadHistory = NO_PAST  #: whose the jobs are, and what is known of earlier runs
    recent_runs: RecentRuns | None = None  #: what users' last runs told; None if not asked
    #: Seconds from submission until eligible, shape [n]; None where the log tells of none.
    eligible_after: FloatArray | None = None
    machine: Machine | None = None  #: whose nodes the jobs run on; None for a pool of processors
    #: What the site bills each job for a second, shape [n]; None where it counts processors.
    billed: FloatArray | None = None
    #: Second of the log's times at which it begins, for rules that count from there: 0 where its
    #: times do, else the first arrival. Windows keep that of the whole.
    begin: float = 0.0
    utilities: JobUtilities | None = None  #: classes of the site's own; None without such

    @property
    def charged(self) -> FloatArray | IntArray:
        """What each job is charged for a second, of which accounts have shares; shape [n]."""
        return self.log.processors if self.billed is None else self.billed

    @property
    def requested(self) -> FloatArray:
        """Requested seconds; the run time where a job asked for none (definitions); shape [n]."""
        limit = self.log.time_limit
        return np.where(np.isfinite(limit) & (limit > 0), limit, self.log.run_time)

    def goals(self, wanted: Goals) -> Goals:
        """What the site wants, where its shares are its own: derived ones promise nothing."""
        if self.shares_from == PAST_WORK:
            return replace(wanted, shares=0.0)
        if self.shares_from == GIVEN and wanted.shares is None:
            return replace(wanted, shares=POINTS_A_DOUBLING)
        return wanted.resolved(self.shares)

    def jobs(self) -> JobTable:
        """The columns that ordering rules look at; on a machine of nodes, with what jobs weigh."""
        jobs = JobTable.classed(self.log, interactive=self.interactive, account=self.account)
        if self.machine is None:
            return jobs
        machine = self.machine
        weighed = weighed_processors(
            jobs.size, jobs.requests, machine.resources, machine.capacity, machine.beside
        )
        return replace(jobs, weighed=weighed)

    def workload(self, estimates: RunTimeEstimate | None) -> Workload:
        """The workload as a policy believes it; None is the oracle, who knows the run times.

        Where a job asked for no time, its run time stands for the request (definitions).
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
        return Workload.of_jobs(
            jobs,
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
        capacity: processors; by default what the log says.
        shares: share of each account, sum 1; by default those of the machine's accounts, or else
            each account's fraction of the log's work, the four largest kept and the rest summed up
            as `_other`.
        classifier: job-class rules; by default run time < 900 s for SWF logs (definitions), and
            the default rules otherwise; by the run time that the log records.
        whole_nodes_of: processors of a node where jobs get whole nodes; a job then occupies the
            next multiple.
        kill_at_limit: end jobs at their requested time, as most sites do; otherwise they run as
            long as the log says.
        partitions: processors of each partition by its name in the log, where partitions share
            none; jobs of others are left out. The capacity is then their sum.
        machine: whose nodes the jobs run on, in place of `capacity` and `partitions`.
        billing: of the site, where no machine tells it.

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
