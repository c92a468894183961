"""The priority that a site's own settings give the jobs of a log: weights times factors."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from slurm_rl_plugin.accounting.port import OWN_BEGINNING, JobLog
from slurm_rl_plugin.domain.machine import (
    OF_ACCOUNTS,
    OF_QUEUES,
    OF_USERS,
    Machine,
    PriorityWeights,
)
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.domain.share_tree import ROOT, Association, ShareTree
from slurm_rl_plugin.domain.site_priority import (
    CLASSIC,
    association_factors,
    fixed_points,
    next_reset,
)
from slurm_rl_plugin.domain.sort_formula import sorted_by
from slurm_rl_plugin.simulator.scoring.site_priority import FairShare, SitePriority, fair_share
from slurm_rl_plugin.simulator.workloads.log_workload import (
    GIVEN,
    OF_CLUSTER,
    PreparedLog,
    tree_of_entities,
)
from slurm_rl_plugin.simulator.workloads.machine_load import completed_requests, partition_of
from slurm_rl_plugin.units import DAY, FloatArray, IntArray

#: What formulas call the part of the tree that an entity has; the second is the old name.
_PERCENT = ("fairshare_perc", "fair_share_perc")
#: Steps of decay at most: those of 2,700 years, a day each.
_MOST_DECAYS = 1_000_000
#: OpenPBS counts memory in KiB.
_KIB_PER_MIB = 1024.0
#: Parts of a formula's value, and the longest wait that counts, seconds.
_MILLION, _LONGEST = 1e6, 3650 * DAY


def site_priority(prepared: PreparedLog, machine: Machine) -> SitePriority:
    """What slurmctld would give each job: factors of what it asked for, not of what it gets."""
    log, weights = prepared.log, machine.weights
    tree, association = _tree(prepared, machine)
    fair = _fair_share(log, weights, tree, association)
    if weights.formula:
        return _by_formula(prepared, machine, fair)
    fixed = fixed_points(
        machine,
        completed_requests(log, machine),
        partition_of(log, machine),
        log.qos,
        prepared.requested,
        association_factors(weights, tree)[association],
    )
    return SitePriority(
        points=fixed.total,
        age=float(weights.age),
        highest_age=float(weights.highest_age),
        fairshare=float(weights.fairshare),
        period=float(weights.period),
        standing=fixed.standing,
        span=float(
            weights.age + weights.fairshare + weights.size + sum(weights.resources.values())
        ),
        fair=fair,
    )


def _by_formula(prepared: PreparedLog, machine: Machine, fair: FairShare) -> SitePriority:
    """What pbs_sched sorts by, in millionths: points are whole, and formulas may be fractions."""
    log, asked = prepared.log, completed_requests(prepared.log, machine)
    # part of the whole tree of each job's entity, from 0 to 1; of its account without a tree
    known = _is_of_entities(prepared, machine)
    place = fair.association if known else fair.tree.parent[fair.association]
    priorities = np.array([float(each.priority_factor) for each in machine.partitions])
    columns = {
        "ncpus": asked.of(CPUS),
        "mem": asked.of(MEMORY) * _KIB_PER_MIB,
        "ngpus": asked.of(GPUS),
        "nodect": np.maximum(asked.nodes, 1).astype(np.float64),
        "queue_priority": priorities[partition_of(log, machine)],
        "walltime": prepared.requested,
        **dict.fromkeys(_PERCENT, fair.tree.fraction[place]),
    }
    found = sorted_by(machine.weights.formula, columns, len(log))
    return SitePriority(
        points=_MILLION * found.fixed,
        age=_MILLION * found.a_second * _LONGEST,
        highest_age=_LONGEST,
        fairshare=_MILLION * found.a_factor,
        period=0.0,
        fair=fair,
    )


def fair_share_of_log(prepared: PreparedLog, machine: Machine) -> FairShare:
    """The accounts and users of `site_priority`."""
    return _fair_share(prepared.log, machine.weights, *_tree(prepared, machine))


def _fair_share(
    log: JobLog, weights: PriorityWeights, tree: ShareTree, association: IntArray
) -> FairShare:
    decays = _decays(log, weights)
    return fair_share(
        tree,
        association,
        classic=CLASSIC in weights.flags,
        dampening=weights.dampening,
        half_life=np.inf if len(decays) else weights.half_life,
        counts_ends=weights.counts_ends,
        resets=decays if len(decays) else _resets(log, weights),
        kept=weights.decay_factor if len(decays) else 0.0,
    )


def _tree(prepared: PreparedLog, machine: Machine) -> tuple[ShareTree, IntArray]:
    """Accounts and users with their shares, and the place of each job's association, shape [n].

    They are the machine's if the log's shares are; otherwise the accounts are those of the log with
    their shares. An unknown user has 1 share in the account of the job, Slurm's default. OpenPBS
    puts each unknown entity into the group `unknown`.
    """
    log, associations = prepared.log, list(machine.associations)
    if _is_of_entities(prepared, machine):
        entities, column = {
            OF_USERS: ((*log.users, "(unknown)"), log.user),
            OF_ACCOUNTS: (log.accounts, log.account),
            OF_QUEUES: (log.partitions, log.partition),
        }[machine.entity]
        used, of_job = np.unique(column, return_inverse=True)
        tree, at = tree_of_entities(machine, [entities[each] for each in used.tolist()])
        return tree, at[of_job]
    account, names = log.account, tuple(name.lower() for name in log.accounts)
    if prepared.shares_from != OF_CLUSTER:
        account, names = prepared.account, prepared.accounts
        associations = [
            Association(name, parent=ROOT, share=share)
            for name, share in zip(names, prepared.shares.tolist(), strict=True)
        ]
    users = (*log.users, "(unknown)")
    user = np.where(log.user < 0, len(log.users), log.user)
    pairs, of_job = np.unique(account * len(users) + user, return_inverse=True)
    asked = [(names[pair // len(users)], users[pair % len(users)]) for pair in pairs.tolist()]
    known = {(each.account, each.user) for each in associations}
    added = [Association(*pair) for pair in dict.fromkeys(asked) if pair not in known]
    # An account that is newer than the machine's description has 1 share below the root.
    new = [name for name, _ in dict.fromkeys(asked) if (name, "") not in known]
    added += [Association(name, parent=ROOT) for name in dict.fromkeys(new)]
    tree = ShareTree.of([*associations, *added])
    places = tree.places
    return tree, np.array([places[pair] for pair in asked], dtype=np.int64)[of_job]


def _is_of_entities(prepared: PreparedLog, machine: Machine) -> bool:
    return bool(machine.entity) and prepared.shares_from != GIVEN


def _decays(log: JobLog, weights: PriorityWeights) -> FloatArray:
    """When pbs_sched decays usage, from the first submission on, seconds.

    Empty under Slurm, and where the number of steps makes it equal to `half_life`.
    """
    if len(log) == 0 or not weights.decay_every:
        return np.empty(0)
    first = float(log.submit[0])
    end = float(log.submit[-1] + log.run_time.sum())  # by then all have run, one by one
    steps = int((end - first) / weights.decay_every) + 1
    if steps > _MOST_DECAYS:
        return np.empty(0)
    return first + weights.decay_every * np.arange(1.0, steps + 1.0)


def _resets(log: JobLog, weights: PriorityWeights) -> FloatArray:
    """When usage is reset while the jobs come, seconds; none where the log has its own clock."""
    found: list[float] = []
    if log.kind in OWN_BEGINNING or len(log) == 0:
        return np.array(found)
    last = datetime.fromtimestamp(float(log.submit[0])).astimezone()
    end = datetime.fromtimestamp(float(log.submit[-1])).astimezone()
    while (last := next_reset(weights.reset_period, last) or end) < end:
        found.append(last.timestamp())
    return np.array(found)
