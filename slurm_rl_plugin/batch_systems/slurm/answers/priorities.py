"""Terms of each pending job's priority by `sprio`; shares and usage of accounts by `sshare`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    SEPARATOR,
    bounded,
    parse_integer,
)
from slurm_rl_plugin.batch_systems.slurm.process import not_understood
from slurm_rl_plugin.domain.jobs import RunningJobs
from slurm_rl_plugin.domain.share_tree import ShareTree
from slurm_rl_plugin.units import MINUTE, FloatArray

#: Format letters of `sprio -o`: job, partition, total, site, nice, then the weighted factors
#: age, association, fair share, job size, partition and QOS; TRES is a list and comes last.
PRIORITY_FORMAT = "%i|%r|%Y|%S|%N|%A|%B|%F|%J|%P|%Q|%T"
#: The numbers of a line, between job and partition and the TRES.
TERMS = ("total", "site", "nice", "age", "association", "fairshare", "job_size", "partition", "qos")
#: How one begins that is not 0.
_NOT_ZERO = frozenset("123456789")
#: Places of those that QOS, partition and association add.
_STANDING = tuple(TERMS.index(name) for name in ("association", "partition", "qos"))
#: Fields behind the first three of them: weighted factors, and the TRES.
_FIELDS = len(TERMS) - 2
#: Slurm's NO_VAL, printed by 22.05 for the terms of a job with several partitions and a priority
#: by hand; 24.11 prints 0.
NO_TERM = -2147483648
#: Points by which the printed, rounded factors and the total may differ: half a point for each
#: of the seven factors.
ROUNDING = 4
LEAST_PRIORITY = 1


class PriorityTerms(NamedTuple):
    """The parts of one job's priority, in points."""

    native: int  #: priority without our term
    site: int  #: SiteFactor; 0 where a priority set by hand hides it
    #: An administrator fixed the priority: then every factor is 0 or, in 22.05, no number.
    by_hand: bool
    spread: int = 0  #: points by which components of a heterogeneous job differ; 0 for others
    nice: int = 0  #: the user's, as `native` counts it; Slurm counts a new one later
    standing: int = 0  #: what association, partition and QOS add

    def with_nice(self, nice: int) -> PriorityTerms:
        """The terms once Slurm counts the nice that the job has now."""
        if self.by_hand or nice == self.nice:
            return self
        return self._replace(native=self.native + self.nice - nice, nice=nice)


#: Record number, partition, priority in all, and its terms.
ListedJob = tuple[int, str, int, PriorityTerms]
#: PriorityTier where slurm.conf names none; also taken for partitions without nodes.
LOWEST_TIER = 1


def parse_lines(text: str, known: Mapping[str, ListedJob]) -> dict[str, ListedJob]:
    """What each line says, without reading again those that an earlier answer held.

    A job with several partitions has a line for each; see `best_terms`. Held jobs and jobs that
    are not eligible (begin time, dependency, array limit) have no line.
    """
    return {line: known[line] if line in known else _parse_line(line) for line in text.splitlines()}


def best_terms(lines: Iterable[ListedJob], tiers: Mapping[str, int]) -> dict[int, PriorityTerms]:
    """Record number -> terms in the partition that can start it first.

    That is the one of the highest tier, and of several of that tier the one of the highest total.
    """
    listed = list(lines)
    alone = {job_id: terms for job_id, _, _, terms in listed}
    if len(alone) == len(listed):  # nearly always: no job is in several partitions
        return alone
    best: dict[int, tuple[int, int, PriorityTerms]] = {}
    for job_id, partition, total, terms in listed:
        found = tiers.get(partition, LOWEST_TIER), total, terms
        if job_id not in best or found[:2] > best[job_id][:2]:
            best[job_id] = found
    return {job_id: terms for job_id, (_, _, terms) in best.items()}


def _parse_line(line: str) -> ListedJob:
    try:
        return _listed_job(line)
    except ValueError as error:
        raise not_understood("sprio", line) from error


def _listed_job(line: str) -> ListedJob:
    job_id, partition, total_text, site_text, nice, factors = line.split(SEPARATOR, 5)
    total, site = parse_integer(total_text), parse_integer(site_text)
    is_by_terms = site != NO_TERM and (site != 0 or factors[:1] in _NOT_ZERO)
    if is_by_terms and total > LEAST_PRIORITY:
        fields = factors.split(SEPARATOR)
        if len(fields) == _FIELDS:  # nearly all lines: the other factors tell nothing more
            rest = _nice_and_standing(nice, fields[1], fields[4], fields[5])
            terms = PriorityTerms(total - site, site, False, 0, *rest)
            return parse_integer(job_id), partition, total, terms
    return _listed_by_terms(line)


@lru_cache(maxsize=4096)  # most jobs of a site share them
def _nice_and_standing(nice: str, *points: str) -> tuple[int, int]:
    return parse_integer(nice), sum(map(parse_integer, points))


def _listed_by_terms(line: str) -> ListedJob:
    job_id, partition, numbers, tres = _cut(line)
    total, site, nice, *factors = numbers
    if tres:
        factors.append(round(sum(points for _, points in tres)))
    # a user's nice is a term as well: with a priority by hand Slurm shows none
    by_hand = site == NO_TERM or (not any((site, nice, *factors)) and total > ROUNDING)
    if by_hand:
        return job_id, partition, total, PriorityTerms(native=total, site=0, by_hand=True)
    native = total - site
    if total <= LEAST_PRIORITY:
        # Slurm cuts at 1, so that the total no longer tells what the rest adds up to.
        native = max(sum(factors) - nice, LEAST_PRIORITY)
    terms = PriorityTerms(
        *(native, site, False), nice=nice, standing=sum(numbers[each] for each in _STANDING)
    )
    return job_id, partition, total, terms


def parse_terms(text: str, jobs: Collection[int]) -> dict[str, dict[str, int]]:
    """Partition -> term -> points of a job, 0 left out but for the total and our term."""
    terms: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        if SEPARATOR not in line:
            continue
        try:
            job_id, partition, numbers, tres = _cut(line)
            points = dict(zip(TERMS, numbers, strict=True))
            points |= {f"tres_{name}": round(value) for name, value in tres}
        except ValueError as error:
            raise not_understood("sprio", line) from error
        if job_id in jobs and partition not in terms:
            terms[partition] = {name: points[name] for name in points if _tells(name, points[name])}
    return terms


def _tells(name: str, points: int) -> bool:
    return points != NO_TERM and (points != 0 or name in ("total", "site"))


def _cut(line: str) -> tuple[int, str, list[int], tuple[tuple[str, float], ...]]:
    """Job, partition, the numbers of TERMS, and name and points of each TRES."""
    job_id, partition, *numbers, tres = line.split(SEPARATOR, len(TERMS) + 2)
    if len(numbers) != len(TERMS):
        raise ValueError(line)
    values = [parse_integer(number) for number in numbers]
    return parse_integer(job_id), partition, values, _points_of_tres(tres)


@lru_cache(maxsize=4096)
def _points_of_tres(text: str) -> tuple[tuple[str, float], ...]:
    parts = (part.partition("=") for part in text.split(",") if part)
    return tuple((name, bounded(float(points))) for name, _, points in parts)


SHARE_FORMAT = "Account,User,RawShares,RawUsage,TRESRunMins"
ROOT = "root"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountTree:
    """Accounts that have users of their own, in the order of `sshare`.

    Attributes:
        shares: account -> fraction of the cluster, sum 1; 0 where `RawShares` is no number.
        usage: account -> decayed billing-seconds of its own users, not of its sub-accounts'.
        left: account -> what the running jobs of its own users have left until their time limits,
            as slurmctld had it when it last calculated usage; accounts without any are left out.
    """

    shares: dict[str, float]
    usage: dict[str, float]
    left: dict[str, RunTimeLeft] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeLeft:
    """Time limits less the time that slurmctld has counted, summed up over running jobs."""

    processors: float  #: processor-seconds
    billing: float  #: billing-seconds


def parse_shares(text: str) -> AccountTree:
    """Shares and usage from `sshare -a -P -h -o SHARE_FORMAT`.

    Sub-accounts and users of an account divide what it has, as in Slurm's fair tree; the users'
    parts together are its own. Users directly under the root take no part.
    """
    tree, usage = parse_tree(text)
    fractions, own, parent = _fractions(tree), usage.tolist(), tree.parent.tolist()
    has_users = [False] * len(tree)
    for at, (user, above, used) in enumerate(zip(tree.users, parent, usage.tolist(), strict=True)):
        if user:
            has_users[above] = True
        elif at:
            own[above] -= used
    leaves = [at for at in range(1, len(tree)) if has_users[at]]
    whole = sum(fractions[at] for at in leaves)
    return AccountTree(
        shares={tree.accounts[at]: fractions[at] / whole if whole else 0.0 for at in leaves},
        usage={tree.accounts[at]: max(own[at], 0.0) for at in leaves},
        left=_left(text),
    )


def usage_now(
    tree: AccountTree, accounts: Sequence[str], running: RunningJobs, now: float
) -> FloatArray:
    """Usage of accounts with what their running jobs used since slurmctld last counted it.

    slurmctld counts running jobs each PriorityCalcPeriod, five minutes by default, and a job again
    when it ends. The uncounted time is what slurmctld believes to be left until the time limits,
    less what is left now. An account with a running job without a time limit gets nothing added.
    """
    usage = np.array([tree.usage.get(name, 0.0) for name in accounts], dtype=np.float64)
    jobs, ran = running.jobs, np.maximum(now - running.start, 0.0)
    of_job = (jobs.processors * np.maximum(jobs.time_limit - ran, 0.0), jobs.processors * ran)
    left, used = (np.bincount(jobs.account, each, len(accounts)) for each in of_job)
    for at, name in enumerate(accounts):
        counted = tree.left.get(name)
        if counted is not None and not math.isnan(left[at]):
            uncounted = min(max(counted.processors - left[at], 0.0), used[at])
            usage[at] += uncounted * counted.billing / counted.processors
    return usage


def _left(text: str) -> dict[str, RunTimeLeft]:
    """`AccountTree.left` from the lines of users."""
    processors: dict[str, float] = {}
    billing: dict[str, float] = {}
    for line in text.splitlines():
        account, user, _, _, *run_minutes = line.split("|")
        if not user or not run_minutes:
            continue
        minutes = dict(each.rpartition("=")[::2] for each in run_minutes[0].split(","))
        name, whole = account.strip(), _minutes(minutes, "cpu")
        processors[name] = processors.get(name, 0.0) + whole * MINUTE
        billing[name] = billing.get(name, 0.0) + _minutes(minutes, "billing", whole) * MINUTE
    return {
        name: RunTimeLeft(processors=each, billing=billing[name])
        for name, each in processors.items()
        if each > 0.0
    }


def _minutes(amounts: Mapping[str, str], name: str, otherwise: float = 0.0) -> float:
    """An amount of `cpu=12,mem=640`; `otherwise` if it is missing or not a number."""
    text = amounts.get(name, "")
    return float(text) if text.isdigit() else otherwise


def parse_tree(text: str) -> tuple[ShareTree, FloatArray]:
    """The tree of `sshare -a -P -h -o SHARE_FORMAT`, and usage, billing-seconds, shape [n].

    sshare prints no priorities of associations. Where PrivateData hides the root, accounts are
    below an implied one.
    """
    accounts, users, parent = [ROOT], [""], [-1]
    raw, used = [math.nan], [0.0]
    line_of_ancestors, place = [0], dict[str, int]()
    for line in text.splitlines():
        try:
            account, user, shares, usage, *_ = line.split("|")
            name, share, service = account.strip(), _shares(shares), float(usage or 0)
            if user:
                above = place[name]
            else:
                depth = len(account) - len(account.lstrip())
                del line_of_ancestors[depth:]
                above = line_of_ancestors[-1] if line_of_ancestors else 0
        except (ValueError, KeyError) as error:
            raise not_understood("sshare", line) from error
        at = len(accounts)
        if name == ROOT and not user:
            at, raw[0], used[0] = 0, share, service
        else:
            accounts.append(name)
            users.append(user)
            parent.append(above)
            raw.append(share)
            used.append(service)
        if not user:
            place[name] = at
            line_of_ancestors.append(at)
    tree = ShareTree(
        accounts=tuple(accounts),
        users=tuple(users),
        parent=np.array(parent, dtype=np.int64),
        shares=np.array(raw),
        priority=np.zeros(len(raw)),
    )
    return tree, np.array(used)


def _shares(text: str) -> float:
    """RawShares as a number; NaN for the word `parent`, and for nothing at all."""
    return float(text) if text.isdigit() else math.nan


def _fractions(tree: ShareTree) -> list[float]:
    """Each account's part of the cluster that is its own users', by place; 0 for users."""
    count, parent, users = len(tree), tree.parent.tolist(), tree.users
    numbers = np.nan_to_num(tree.shares).tolist()
    of_users, sub_accounts = [0.0] * count, [0.0] * count
    for at in range(1, count):
        (of_users if users[at] else sub_accounts)[parent[at]] += numbers[at]
    whole, own = [1.0] * count, [0.0] * count
    for at in range(count):
        if users[at]:
            continue
        if at:
            above = parent[at]
            divided = sub_accounts[above] + (of_users[above] if above else 0.0)
            whole[at] = whole[above] * (numbers[at] / divided if divided else 1.0)
        below = sub_accounts[at]
        own[at] = whole[at] * (of_users[at] / (of_users[at] + below) if below else 1.0)
    return own
