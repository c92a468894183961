"""SiteFactor, an additive term of `priority/multifactor` that nobody else uses, and its writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from slurm_rl_plugin.batch_systems.command_process import Answer
from slurm_rl_plugin.batch_systems.port import LARGEST_FACTOR, ApplyReport
from slurm_rl_plugin.batch_systems.slurm.answers.fields import QueueRow
from slurm_rl_plugin.batch_systems.slurm.answers.priorities import (
    NO_TERM,
    PRIORITY_FORMAT,
    ROUNDING,
    ListedJob,
    PriorityTerms,
    best_terms,
    parse_lines,
)
from slurm_rl_plugin.batch_systems.slurm.process import (
    CommandRunner,
    failure,
    not_understood,
)
from slurm_rl_plugin.errors import ChangeRejected

#: Seconds allowed for one change, on top of a call's time-out; measured: below a millisecond,
#: and a backfill cycle in between.
SECONDS_A_WRITE = 0.01
#: Both ways in which `scontrol` names the job: at the end, or with its tasks at the beginning.
REFUSALS = (
    re.compile(r"^(?P<text>.+) for job (?P<job>\d+)\S*$"),
    re.compile(r"^(?P<job>\d+)(?:_\S+)?: (?P<text>.+)$"),
)
#: What Slurm says to a change of another user's job by who is no operator, and to nobody else.
NO_RIGHT = "Invalid user id"
#: What it says to a change by who owns the job or coordinates its account and is no operator; and
#: where a job_submit plugin of the site refuses a change of one job, to operators as well.
DENIED = "Access/permission denied"
#: What it says to a change of a job that has left the queue; any other refusal leaves it as it was.
GONE = ("Invalid job id specified", "Job has already finished", "already completing or completed")
#: What it says of those tasks of an array that it has changed, where it refuses others.
DONE = "No error"
#: What stands for bytes that are no text.
NO_TEXT = "\N{REPLACEMENT CHARACTER}"
ValueWrite = tuple[int, int]


def still_waiting(rejected: Mapping[int, str]) -> frozenset[int]:
    """The jobs of refused changes that, by Slurm's words, may not have left the queue."""
    return frozenset(
        job_id for job_id, words in rejected.items() if not any(gone in words for gone in GONE)
    )


class FactorWriter:
    """Writes values of one field of jobs, at most `writes_per_call` in one burst."""

    def __init__(self, sender: Scontrol, writes_per_call: int) -> None:
        self._sender = sender
        self._writes_per_call = writes_per_call
        #: Whether Slurm has accepted a change of ours since it last denied us the right.
        self._had_right = False

    def refused(self, changes: Sequence[ValueWrite]) -> dict[int, str]:
        """Set the factor of each job (of the array, for a job array); those refused, and why.

        A job that runs already is accepted by Slurm without a word; the value shows when the job
        is requeued.
        """
        rejected = {
            job_id: f"factor {factor} is outside ±{LARGEST_FACTOR}"
            for job_id, factor in changes
            if abs(factor) > LARGEST_FACTOR
        }
        allowed = [change for change in changes if change[0] not in rejected]
        for first in range(0, len(allowed), self._writes_per_call):
            burst = allowed[first : first + self._writes_per_call]
            refused = self._sender.send(burst)
            rejected.update(refused)
            if len(refused) < len(burst):
                self._had_right = True
            elif self._is_denied_right(refused):
                self._had_right = False
                raise ChangeRejected(
                    "Slurm denies every change of priority: give the user of this daemon "
                    "AdminLevel=Operator (sacctmgr modify user NAME set AdminLevel=Operator)"
                )
        return rejected

    def _is_denied_right(self, refused: Mapping[int, str]) -> bool:
        """Whether refusals of a whole burst tell that we are no operator, and not of these jobs."""
        if any(NO_RIGHT in words for words in refused.values()):
            return True
        return not self._had_right and all(DENIED in words for words in refused.values())


class Scontrol:
    """Sends each burst of changes through one run of `scontrol`.

    It names an array by its number, which Slurm takes for every record of it.
    """

    def __init__(self, commands: CommandRunner) -> None:
        self._commands = commands

    def send(self, changes: Sequence[ValueWrite]) -> dict[int, str]:
        """Set the factor of each job (of the array, for a job array); those refused, and why.

        The words are Slurm's own, such as `Access/permission denied`.
        """
        lines = [f"update jobid={job_id} sitefactor={value}\n" for job_id, value in changes]
        answer = self._commands.call(
            ["scontrol"], stdin="".join(lines), extra=SECONDS_A_WRITE * len(changes)
        )
        return _refusals(answer, {job_id for job_id, _ in changes})


def _refusals(answer: Answer, asked: set[int]) -> dict[int, str]:
    """Job id -> Slurm's words. The exit status is no guide: releases differ in it.

    An array of which some tasks were changed is not refused: the others have just left the queue,
    or the next look at it shows that they have not.
    """
    refused: dict[int, str] = {}
    changed: set[int] = set()
    others: list[str] = []
    for line in (answer.errors + answer.output).splitlines():
        if NO_TEXT in line:  # who says that has not done what it was told
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


class SiteFactors:
    """Takes factors from `sprio`, which alone shows them, and writes them.

    Held jobs and jobs that are not eligible yet are not listed by `sprio`; their factor is what we
    last wrote or saw, 0 if never, and the rest of their priority is native. A priority set by hand
    hides our term.

    A factor of a heterogeneous job is that of its component with the lowest native priority; the
    other ones get what puts them at the same priority. Slurm sets the factor of all when told to
    set the leader's, so that is written first, and 0 needs no more.
    """

    def __init__(self, writer: FactorWriter) -> None:
        self._writer = writer
        self._lines: Mapping[str, ListedJob] = {}
        self._listed: Mapping[int, PriorityTerms] = {}
        #: Factors that we wrote or saw, by array number: `sprio` does not list every job.
        self._factors: dict[int, int] = {}
        #: What partition, QOS and association added, by partitions, QOS, account and user.
        self._standing: dict[tuple[tuple[str, ...], str, str, str], int] = {}
        #: Arrays whose factor did not show once.
        self._doubted: set[int] = set()
        #: Leader -> component -> points from it up to the one that speaks for the job.
        self._lifts: dict[int, dict[int, int]] = {}

    def take(self, answer: str) -> None:
        """Take the terms of every pending job's priority from an answer of SPRIO."""
        self._lines = parse_lines(answer, self._lines)
        self._listed = best_terms(self._lines.values(), {})

    def terms(self, waiting: Sequence[QueueRow], tiers: Mapping[str, int]) -> list[PriorityTerms]:
        """SiteFactor as ours, the rest of `sprio`'s terms; of several partitions the best."""
        if len(set(tiers.values())) > 1:
            self._listed = best_terms(self._lines.values(), tiers)
        self._lifts.clear()
        terms = self._with_standing(waiting, [self._terms(row) for row in waiting])
        self._doubted.intersection_update(row.array_id for row in waiting)
        self._factors = {
            row.array_id: self._factors.get(row.array_id, 0) if term.by_hand else term.site
            for row, term in zip(waiting, terms, strict=True)
        }
        return terms

    def _with_standing(
        self, waiting: Sequence[QueueRow], terms: Sequence[PriorityTerms]
    ) -> list[PriorityTerms]:
        """Give a job that `sprio` does not list what another job of its kind has, else 0.

        A job that has just come, or starts between the two commands, is in `squeue` alone.
        """
        kinds = [(row.partitions, row.qos, row.account, row.user) for row in waiting]
        listed = {
            kind: term.standing
            for kind, term in zip(kinds, terms, strict=True)
            if term.standing != NO_TERM
        }
        of_kind = {kind: self._standing.get(kind, 0) for kind in kinds} | listed
        self._standing = of_kind
        return [
            term if term.standing != NO_TERM else term._replace(standing=of_kind[kind])
            for kind, term in zip(kinds, terms, strict=True)
        ]

    def carrying(self, rows: Sequence[QueueRow]) -> list[int]:
        """Jobs with a SiteFactor, and those whose factor `sprio` does not show."""
        chosen = (
            array_id
            for array_id, terms in self._listed_records(rows)
            if terms is None or terms.by_hand or terms.site
        )
        return list(dict.fromkeys(chosen))

    def showing(self, rows: Sequence[QueueRow]) -> frozenset[int]:
        """Numbers of the jobs and arrays whose factor can be seen and is not 0."""
        return frozenset(
            array_id
            for array_id, terms in self._listed_records(rows)
            if terms is not None and terms.site and not terms.by_hand
        )

    def _listed_records(
        self, rows: Sequence[QueueRow]
    ) -> Iterator[tuple[int, PriorityTerms | None]]:
        """Number of the job or array, and what `sprio` lists, of each record and component."""
        for row in rows:
            for record in row.components or (row,):
                yield row.array_id, self._listed.get(record.job_id)

    def write(self, changes: Sequence[ValueWrite]) -> ApplyReport:
        """Set SiteFactor; components of a heterogeneous job get what lifts them to the leader."""
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

    def _hides(self, row: QueueRow, listed: PriorityTerms) -> bool:
        """Whether a priority of 1 to 4, which looks like one without any points, was set by hand.

        Then it hides what we write. One write may have been lost by slurmctld; where the factor
        does not show after a second one, it is hidden.
        """
        if listed.site != 0 or listed.native > ROUNDING:
            if self._doubted:
                self._doubted.discard(row.array_id)
            return False
        if self._factors.get(row.array_id, 0) == 0:
            return False
        doubted = row.array_id in self._doubted
        self._doubted.add(row.array_id)
        return doubted

    def _terms(self, row: QueueRow) -> PriorityTerms:
        listed = self._terms_listed(row)
        if listed is not None:
            return listed._replace(by_hand=True) if self._hides(row, listed) else listed
        factor = self._factors.get(row.array_id, 0)
        native = max(row.priority - factor, 1) if row.priority else 0
        return PriorityTerms(native=native, site=factor, by_hand=False, standing=NO_TERM)

    def _terms_listed(self, row: QueueRow) -> PriorityTerms | None:
        """The terms that `sprio` lists for a job; None where it lists none.

        Of a heterogeneous job the component speaks that the site puts last, since all wait for
        it; where the priority of one was set by hand, that one does.
        """
        listed = {
            each.job_id: self._listed[each.job_id].with_nice(each.nice)
            for each in row.components or (row,)
            if each.job_id in self._listed
        }
        if not row.components:
            return listed.get(row.job_id)
        if len(listed) < len(row.components):  # one cannot start yet, so none can
            return None
        speaker = min(listed.values(), key=lambda terms: (not terms.by_hand, terms.native))
        self._lifts[row.job_id] = {
            each: speaker.native - terms.native for each, terms in listed.items()
        }
        total = speaker.native + speaker.site
        spread = max(abs(terms.native + terms.site - total) for terms in listed.values())
        return speaker._replace(spread=spread)
