"""Reads the terms of pending jobs' priorities by `sprio`, and writes one of them, SiteFactor."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.batch_systems.command_process import Answer
from slurm_rl_plugin.batch_systems.port import LARGEST_FACTOR, ApplyReport
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    LOWEST_TIER,
    SEPARATOR,
    QueueRow,
    bounded,
)
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, failure, not_understood
from slurm_rl_plugin.batch_systems.slurm.queue.job_tables import Lines
from slurm_rl_plugin.errors import ChangeRejected
from slurm_rl_plugin.units import BoolArray, IntArray

#: Format letters of `sprio -o`: job, partition, total, site, nice, then the weighted factors
#: age, association, fair share, job size, partition and QOS; TRES is a list and comes last.
PRIORITY_FORMAT = "%i|%r|%Y|%S|%N|%A|%B|%F|%J|%P|%Q|%T"
#: The numbers of a line, after job and partition and before the TRES.
PRINTED_TERMS = (
    *("total", "site", "nice", "age", "association", "fairshare", "job_size", "partition", "qos"),
)
#: Characters that are parsed at once, up to the end of a line.
_PART = 1 << 18
#: A line as printed.
_PRINTED = np.dtype(
    [
        *(("job_id", np.int64), ("in_partition", object)),
        *((name, np.int64) for name in PRINTED_TERMS),
        ("tres", object),
    ]
)
#: Slurm's NO_VAL. 22.05 prints it as the terms of a job with several partitions and a priority set
#: by hand; 24.11 prints 0.
NO_TERM = -2147483648
#: Points by which rounded factors and the total may differ: half a point for each of seven factors.
ROUNDING = 4
LEAST_PRIORITY = 1
#: A line: number of the record, number of the partition, total priority, and its terms in points.
LISTED = np.dtype(
    [
        *((name, np.int64) for name in ("job_id", "partition", "total")),
        ("native", np.int64),  # priority without our term
        ("site", np.int64),  # SiteFactor; 0 if a priority set by hand hides it
        # set by an administrator: then every factor is 0 or, in 22.05, no number
        ("by_hand", np.bool_),
        ("nice", np.int64),  # the user's, as `native` counts it; Slurm counts a new one later
        ("standing", np.int64),  # sum of the terms by association, partition and QOS
        ("spread", np.int64),  # difference between the components of a heterogeneous job, else 0
    ]
)
Listed = NDArray[Any]


class Priorities(NamedTuple):
    """An answer of `sprio`.

    A job with several partitions has a line for each; see `best`. Held jobs and jobs that are not
    eligible (begin time, dependency, array limit) have no line.
    """

    listed: Listed  #: every line
    partitions: tuple[str, ...]  #: names by their numbers

    def best(self, tiers: Mapping[str, int]) -> Listed:
        """Each job's line of the partition that can start it first: by tier, total, then place.

        Equal totals occur since Slurm cuts totals at 1.
        """
        listed = self.listed
        tier = np.array([tiers.get(name, LOWEST_TIER) for name in self.partitions], dtype=np.int64)
        order = np.lexsort((-listed["total"], -tier[listed["partition"]], listed["job_id"]))
        job_id = listed["job_id"][order]
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = job_id[1:] != job_id[:-1]
        return listed[order[first]]


def parse_priorities(text: str) -> Priorities:
    """Read an answer of SPRIO, in parts to save memory."""
    numbers: dict[str, int] = {}
    parts, begin = [np.empty(0, dtype=LISTED)], 0
    while begin < len(text):
        end = text.find("\n", begin + _PART) + 1 or len(text)
        parts.append(_listed(text[begin:end].splitlines(), numbers))
        begin = end
    return Priorities(np.concatenate(parts), tuple(numbers))


def _listed(lines: list[str], numbers: dict[str, int]) -> Listed:
    """These lines; partitions that `numbers` lacks are added to it."""
    try:
        return _without_ours(_printed(lines), numbers)
    except ValueError as error:
        _blame(lines, lambda line: _listed([line], {}))
        raise not_understood("sprio", lines[0]) from error


def _blame(lines: list[str], read: Callable[[str], object]) -> None:
    """Raise the error of the first of several lines that cannot be read alone."""
    for line in filter(None, lines if len(lines) > 1 else ()):
        read(line)


def _printed(lines: list[str]) -> NDArray[Any]:
    printed = np.loadtxt(
        lines, _PRINTED, comments=None, delimiter=SEPARATOR, ndmin=1, encoding=None
    )
    for name in ("job_id", *PRINTED_TERMS):
        bounded(float(np.abs(printed[name]).max()))
    return printed


def _without_ours(printed: NDArray[Any], numbers: dict[str, int]) -> Listed:
    site, total, nice = printed["site"], printed["total"], printed["nice"]
    factors = [printed[name] for name in PRINTED_TERMS[3:]]
    is_cut = total <= LEAST_PRIORITY  # Slurm cuts the total at 1, so the sum of terms is needed
    # a user's nice is a term as well: with a priority by hand Slurm shows none
    is_bare = ~np.any([site, nice, *factors], axis=0) & (total > ROUNDING)
    points = np.zeros(len(printed), dtype=np.int64)
    for at in np.flatnonzero(is_cut | is_bare).tolist():
        points[at] = round(sum(each for _, each in _points_of_tres(printed["tres"][at])))
    by_hand = (site == NO_TERM) | (is_bare & (points == 0))
    native = np.where(
        is_cut, np.maximum(sum(factors) + points - nice, LEAST_PRIORITY), total - site
    )
    listed = np.zeros(len(printed), dtype=LISTED)
    listed["job_id"], listed["total"], listed["by_hand"] = printed["job_id"], total, by_hand
    listed["partition"] = [
        numbers.setdefault(name, len(numbers)) for name in printed["in_partition"].tolist()
    ]
    listed["native"] = np.where(by_hand, total, native)
    standing = printed["association"] + printed["partition"] + printed["qos"]
    for name, column in (("site", site), ("nice", nice), ("standing", standing)):
        listed[name][~by_hand] = column[~by_hand]
    return listed


def parse_terms(text: str, jobs: Collection[int]) -> dict[str, dict[str, int]]:
    """Partition -> term -> points of a job, 0 left out but for the total and our term."""
    lines = [line for line in text.splitlines() if SEPARATOR in line]
    terms: dict[str, dict[str, int]] = {}
    try:
        for row in _printed(lines) if lines else ():
            points = {name: int(row[name]) for name in PRINTED_TERMS}
            points |= {f"tres_{name}": round(each) for name, each in _points_of_tres(row["tres"])}
            if row["job_id"] in jobs:
                shown = {
                    name: each
                    for name, each in points.items()
                    if each != NO_TERM and (each or name in ("total", "site"))
                }
                terms.setdefault(row["in_partition"], shown)
    except ValueError as error:
        _blame(lines, lambda line: parse_terms(line, jobs))
        raise not_understood("sprio", lines[0]) from error
    return terms


@lru_cache(maxsize=4096)
def _points_of_tres(text: str) -> tuple[tuple[str, float], ...]:
    parts = (part.partition("=") for part in text.split(",") if part)
    return tuple((name, bounded(float(points))) for name, _, points in parts)


#: Changes sent at once.
WRITES_PER_CALL = 500
#: Seconds allowed for one change, on top of a call's time-out; measured: below a millisecond,
#: and a backfill cycle in between.
SECONDS_A_WRITE = 0.01
#: `scontrol` names the job at the end, or with its tasks at the beginning.
REFUSALS = (
    re.compile(r"^(?P<text>.+) for job (?P<job>\d+)\S*$"),
    re.compile(r"^(?P<job>\d+)(?:_\S+)?: (?P<text>.+)$"),
)
#: Slurm's refusal of a change of another user's job if the writer is no operator.
NO_RIGHT = "Invalid user id"
#: Its refusal if the writer owns the job or coordinates its account but is no operator; also to
#: operators, if a job_submit plugin of the site refuses the change of one job.
DENIED = "Access/permission denied"
#: Its refusals of a job that has left the queue; after any other refusal the job is as before.
GONE = ("Invalid job id specified", "Job has already finished", "already completing or completed")
#: Its message for the tasks of an array that it changed, if it refused others.
DONE = "No error"
#: Replaces bytes that are not text.
NO_TEXT = "\N{REPLACEMENT CHARACTER}"
ValueWrite = tuple[int, int]


def still_waiting(rejected: Mapping[int, str]) -> frozenset[int]:
    """The jobs of refused changes that, by Slurm's message, may still be in the queue."""
    return frozenset(
        job_id for job_id, words in rejected.items() if not any(gone in words for gone in GONE)
    )


class Scontrol:
    """Writes factors by `scontrol`, which changes all records of an array by its number."""

    def __init__(self, commands: CommandRunner) -> None:
        self._commands = commands
        #: Whether Slurm has accepted our changes since it last denied us the right.
        self._had_right = False

    def refused(self, changes: Sequence[ValueWrite]) -> dict[int, str]:
        """Set the factor of each job or array in bursts; returns refused jobs, and why.

        Slurm silently accepts the factor of a running job, and shows it after a requeue.
        """
        rejected = {
            job_id: f"factor {factor} is outside ±{LARGEST_FACTOR}"
            for job_id, factor in changes
            if abs(factor) > LARGEST_FACTOR
        }
        allowed = [change for change in changes if change[0] not in rejected]
        for first in range(0, len(allowed), WRITES_PER_CALL):
            burst = allowed[first : first + WRITES_PER_CALL]
            refused = self.send(burst)
            rejected.update(refused)
            if len(refused) < len(burst):
                self._had_right = True
            elif any(NO_RIGHT in words for words in refused.values()) or (
                not self._had_right and all(DENIED in words for words in refused.values())
            ):  # refusals of a whole burst are about our right, and not about these jobs
                self._had_right = False
                raise ChangeRejected(
                    "Slurm denies every change of priority: give the user of this daemon "
                    "AdminLevel=Operator (sacctmgr modify user NAME set AdminLevel=Operator)"
                )
        return rejected

    def send(self, changes: Sequence[ValueWrite]) -> dict[int, str]:
        """Send a burst by one `scontrol`; returns refused jobs with Slurm's message."""
        lines = [f"update jobid={job_id} sitefactor={value}\n" for job_id, value in changes]
        answer = self._commands.call(
            ["scontrol"], stdin="".join(lines), extra=SECONDS_A_WRITE * len(changes)
        )
        return _refusals(answer, {job_id for job_id, _ in changes})


def _refusals(answer: Answer, asked: set[int]) -> dict[int, str]:
    """Job id -> Slurm's message. Releases differ in the exit status, so it is not used.

    An array with some changed tasks is not refused: the others have just left the queue, or the
    next snapshot shows that they have not.
    """
    refused: dict[int, str] = {}
    changed: set[int] = set()
    others: list[str] = []
    for line in (answer.errors + answer.output).splitlines():
        if NO_TEXT in line:  # not a message of scontrol, so the changes may not have been made
            raise not_understood("scontrol", line)
    for line in answer.errors.splitlines():
        job_id, text = _refusal(line.strip())
        if CommandRunner.is_unreachable(line):
            raise failure("scontrol", line)
        if job_id in asked and text == DONE:
            changed.add(job_id)
        elif job_id in asked:
            refused.setdefault(job_id, text)
        elif line.strip():
            others.append(line)
    if answer.status and not refused and not changed:
        raise failure("scontrol", "\n".join(others) or answer.errors or answer.output)
    return {job_id: words for job_id, words in refused.items() if job_id not in changed}


def _refusal(line: str) -> tuple[int, str]:
    for pattern in REFUSALS:
        if found := pattern.match(line):
            return int(found["job"]), found["text"]
    return -1, line


SPRIO = ("sprio", "--noheader", "-o", PRIORITY_FORMAT)
RECORD = np.dtype([(name, np.int64) for name in ("array_id", "job_id", "nice")])
#: Columns of a line that determine `standing`.
KIND = ("partitions", "qos", "account", "user")


class SiteFactors:
    """Reads factors from `sprio`, which alone shows them, and writes them.

    `sprio` does not list held jobs and jobs that are not eligible yet. Their factor is what we last
    wrote or saw, else 0, and the rest of their priority is native. A priority set by hand hides our
    term.

    The factor of a heterogeneous job is that of its component with the lowest native priority; the
    others get the factor that lifts them to the same priority. Slurm sets the factor of all
    components with the leader's, so the leader's is written first, and 0 is written only there.
    """

    def __init__(self, writer: Scontrol) -> None:
        self._writer = writer
        self._priorities = parse_priorities("")
        self._listed: Listed = self._priorities.best({})
        #: Factors other than 0 that we wrote or saw, by array number: `sprio` does not list all.
        self._factors: dict[int, int] = {}
        #: `standing` by the columns of KIND.
        self._standing: dict[tuple[int, ...], int] = {}
        self._doubted: set[int] = set()  #: arrays whose factor was missing once
        #: Leader -> component -> points from it up to the component with the lowest priority.
        self._lifts: dict[int, dict[int, int]] = {}

    def take(self, answer: str) -> None:
        """Read an answer of SPRIO."""
        self._priorities = parse_priorities(answer)
        self._listed = self._priorities.best({})

    def terms(self, waiting: Sequence[QueueRow], lines: Lines, tiers: Mapping[str, int]) -> Listed:
        """Terms of pending jobs, shape [n], in the partition that can start each first.

        `waiting` has one row for each job or array, and `lines` their lines.
        """
        if len(set(tiers.values())) > 1:
            self._listed = self._priorities.best(tiers)
        self._lifts.clear()
        terms, is_listed = self._terms_of(lines)
        for at, row in enumerate(waiting):
            if row.components:
                is_listed[at] = self._speak_for_all(row, terms[at : at + 1])
        for at in np.flatnonzero(~is_listed).tolist():
            row = waiting[at]
            factor = self._factors.get(row.array_id, 0)
            native = max(row.priority - factor, 1) if row.priority else 0
            terms[at] = 0  # also what the leader of a heterogeneous job has
            terms["native"][at], terms["site"][at] = native, factor
            terms["standing"][at] = NO_TERM
        numbers = lines["array_id"]
        self._hide(terms, is_listed, numbers)
        self._complete_standing(terms["standing"], lines)
        by_hand = numbers[terms["by_hand"]].tolist()
        shown = np.flatnonzero(~terms["by_hand"] & (terms["site"] != 0))
        factors = zip(numbers[shown].tolist(), terms["site"][shown].tolist(), strict=True)
        known = self._factors
        self._factors = {each: known[each] for each in by_hand if each in known} | dict(factors)
        return terms

    def _terms_of(self, lines: Lines | Listed) -> tuple[Listed, BoolArray]:
        """Each record's terms with its present nice, and whether `sprio` lists it."""
        known, wanted = self._listed["job_id"], lines["job_id"]  # the first ones ascend
        terms = np.zeros(len(lines), dtype=LISTED)
        place = np.searchsorted(known, wanted)
        is_listed = place < len(known)
        is_listed[is_listed] = known[place[is_listed]] == wanted[is_listed]
        found = terms[is_listed] = self._listed[place[is_listed]]
        later = np.where(found["by_hand"], 0, found["nice"] - lines["nice"][is_listed])
        terms["native"][is_listed] += later
        return terms, is_listed

    def _speak_for_all(self, row: QueueRow, terms: Listed) -> bool:
        """Set the terms of a heterogeneous job, unless a component is not listed.

        They are those of the component with the lowest priority, since all wait for it, or of one
        with a priority set by hand.
        """
        records, listed, is_listed = self._of_records([row])
        if not is_listed.all():  # this component cannot start yet, so the job cannot
            return False
        speaker = listed[np.lexsort((listed["native"], ~listed["by_hand"]))[0]]
        lifts = (speaker["native"] - listed["native"]).tolist()
        self._lifts[row.job_id] = dict(zip(records["job_id"].tolist(), lifts, strict=True))
        total = listed["native"] + listed["site"]
        terms[0] = speaker
        terms["spread"] = np.abs(total - (speaker["native"] + speaker["site"])).max()
        return True

    def _hide(self, terms: Listed, is_listed: BoolArray, numbers: IntArray) -> None:
        """Mark priorities of 1 to 4 that were set by hand but look like computed ones.

        Such a priority hides our factor. slurmctld may lose one write, so a factor counts as hidden
        only if it is still missing after a second write.
        """
        low = is_listed & (terms["site"] == 0) & (terms["native"] <= ROUNDING)
        doubted = set()
        for at in np.flatnonzero(low).tolist():
            if self._factors.get(number := int(numbers[at]), 0):
                terms["by_hand"][at] |= number in self._doubted
                doubted.add(number)
        if self._doubted:  # nothing new is known of jobs that are not listed
            doubted |= self._doubted.intersection(numbers[~is_listed | low].tolist())
        self._doubted = doubted

    def _complete_standing(self, standing: IntArray, lines: Lines) -> None:
        """Give an unlisted job, which is new or starting, the value of a similar job, else 0."""
        kinds = first = np.zeros(len(lines), dtype=np.int64)
        for name in KIND:
            kinds = kinds * (int(lines[name].max(initial=0)) + 1) + lines[name]
            _, first, kinds = np.unique(kinds, return_index=True, return_inverse=True)
        names = list(zip(*(lines[name][first].tolist() for name in KIND), strict=True))
        of_kind = np.array([self._standing.get(name, 0) for name in names], dtype=np.int64)
        is_known = standing != NO_TERM
        of_kind[kinds[is_known]] = standing[is_known]
        self._standing = dict(zip(names, of_kind.tolist(), strict=True))
        standing[~is_known] = of_kind[kinds[~is_known]]

    def carrying(self, rows: Sequence[QueueRow]) -> list[int]:
        """Jobs with a SiteFactor, and those whose factor `sprio` does not show."""
        records, listed, is_listed = self._of_records(rows)
        chosen = ~is_listed | listed["by_hand"] | (listed["site"] != 0)
        return list(dict.fromkeys(records["array_id"][chosen].tolist()))

    def showing(self, rows: Sequence[QueueRow]) -> frozenset[int]:
        """Numbers of the jobs and arrays with a visible factor other than 0."""
        records, listed, is_listed = self._of_records(rows)
        chosen = is_listed & ~listed["by_hand"] & (listed["site"] != 0)
        return frozenset(records["array_id"][chosen].tolist())

    def _of_records(self, rows: Sequence[QueueRow]) -> tuple[Listed, Listed, BoolArray]:
        """Each record and component as RECORD, its terms, and whether `sprio` lists it."""
        records = [
            (row.array_id, record.job_id, record.nice)
            for row in rows
            for record in row.components or (row,)
        ]
        lines = np.array(records, dtype=RECORD)
        return lines, *self._terms_of(lines)

    def write(self, changes: Sequence[ValueWrite]) -> ApplyReport:
        """Set SiteFactor, for the components of a heterogeneous job to equal priorities."""
        if not changes:
            return ApplyReport()
        leader_of: dict[int, int] = {}
        wanted: list[ValueWrite] = []
        for job_id, factor in changes:
            lifts = self._lifts.get(job_id, {}) if factor else {}
            of_leader = lifts.get(job_id, 0)
            wanted.append((job_id, factor + of_leader))
            for component, lift in lifts.items():
                leader_of[component] = job_id
                if lift != of_leader:
                    wanted.append((component, factor + lift))
        refused = self._writer.refused(wanted)
        rejected = {leader_of.get(number, number): words for number, words in refused.items()}
        accepted = {job_id: factor for job_id, factor in changes if job_id not in rejected}
        self._factors.update(accepted)
        return ApplyReport(accepted=frozenset(accepted), rejected=rejected)
