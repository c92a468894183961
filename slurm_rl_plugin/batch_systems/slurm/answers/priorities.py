"""Terms of each pending job's priority by `sprio`; shares and usage of accounts by `sshare`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    SEPARATOR,
    bounded,
    parse_integer,
)
from slurm_rl_plugin.batch_systems.slurm.process import not_understood
from slurm_rl_plugin.domain.jobs import RunningJobs
from slurm_rl_plugin.domain.share_tree import ShareTree
from slurm_rl_plugin.units import MINUTE, FloatArray, IntArray

#: Format letters of `sprio -o`: job, partition, total, site, nice, then the weighted factors
#: age, association, fair share, job size, partition and QOS; TRES is a list and comes last.
PRIORITY_FORMAT = "%i|%r|%Y|%S|%N|%A|%B|%F|%J|%P|%Q|%T"
#: The numbers of a line, between job and partition and the TRES.
TERMS = ("total", "site", "nice", "age", "association", "fairshare", "job_size", "partition", "qos")
#: Characters that are read at once, and the rest of a line.
_PART = 1 << 18
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


#: What a line says: number of the record, number of the partition, priority in all, and its terms.
LISTED = np.dtype(
    [
        *((name, np.int64) for name in ("job_id", "partition", "total")),
        ("native", np.int64),  # priority without our term
        ("site", np.int64),  # SiteFactor; 0 where a priority set by hand hides it
        # an administrator fixed the priority: then every factor is 0 or, in 22.05, no number
        ("by_hand", np.bool_),
        ("nice", np.int64),  # the user's, as `native` counts it; Slurm counts a new one later
        ("standing", np.int64),  # what association, partition and QOS add
    ]
)
Listed = NDArray[Any]
#: A line in the order of LISTED, with the partition by its name.
ListedJob = tuple[int, str, int, int, int, bool, int, int]
#: PriorityTier where slurm.conf names none; also taken for partitions without nodes.
LOWEST_TIER = 1


class PriorityReader:
    """Reads answers of `sprio`; of a line that stood in the last answer nothing is read again.

    A job with several partitions has a line for each; see `best`. Held jobs and jobs that are not
    eligible (begin time, dependency, array limit) have no line.
    """

    def __init__(self) -> None:
        self._partitions: dict[str, int] = {}
        #: Hashes of the lines in rising order, and what each line says.
        self._keys: IntArray = np.empty(0, dtype=np.int64)
        self._listed: Listed = np.empty(0, dtype=LISTED)

    def take(self, text: str) -> None:
        """Read an answer."""
        parts = [self._part(text[begin:end]) for begin, end in _parts(text)]
        keys, listed = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(keys)
        self._keys, self._listed = keys[order], listed[order]

    def _part(self, text: str) -> tuple[IntArray, Listed]:
        """Hashes of some lines, and what they say."""
        lines = text.splitlines()
        keys = np.fromiter(map(hash, lines), np.int64, len(lines))
        place = places_in(self._keys, keys)
        listed = np.empty(len(lines), dtype=LISTED)
        listed[place >= 0] = self._listed[place[place >= 0]]
        new = np.flatnonzero(place < 0)
        read = (self._numbered(lines[line]) for line in new.tolist())
        listed[new] = np.fromiter(read, LISTED, len(new))
        return keys, listed

    def _numbered(self, line: str) -> tuple[Any, ...]:
        job_id, partition, *others = _parse_line(line)
        return job_id, self._partitions.setdefault(partition, len(self._partitions)), *others

    def best(self, tiers: Mapping[str, int]) -> Listed:
        """Each job's line of the partition that can start it first, by job number.

        That is the one of the highest tier, and of several of that tier the one of the highest
        total.
        """
        listed = self._listed
        tier = np.array([tiers.get(name, LOWEST_TIER) for name in self._partitions], dtype=np.int64)
        order = np.lexsort((-listed["total"], -tier[listed["partition"]], listed["job_id"]))
        job_id = listed["job_id"][order]
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = job_id[1:] != job_id[:-1]
        return listed[order[first]]


def _parts(text: str) -> Iterator[tuple[int, int]]:
    """Where parts of whole lines begin and end, at least one: all lines at once take room."""
    begin = 0
    while begin < len(text) or begin == 0:
        end = text.find("\n", begin + _PART) + 1 or len(text)
        yield begin, end
        begin = end or 1


def places_in(rising: IntArray, wanted: IntArray) -> IntArray:
    """Place of each wanted number among rising ones, -1 for one that is not there."""
    if len(rising) == 0:
        return np.full(len(wanted), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(rising, wanted), len(rising) - 1)
    return np.where(rising[place] == wanted, place, -1)


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
            nice_and_standing = _nice_and_standing(nice, fields[1], fields[4], fields[5])
            job = parse_integer(job_id), partition, total
            return *job, total - site, site, False, *nice_and_standing
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
        return job_id, partition, total, total, 0, True, 0, 0
    native = total - site
    if total <= LEAST_PRIORITY:
        # Slurm cuts at 1, so that the total no longer tells what the rest adds up to.
        native = max(sum(factors) - nice, LEAST_PRIORITY)
    standing = sum(numbers[each] for each in _STANDING)
    return job_id, partition, total, native, site, False, nice, standing


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
