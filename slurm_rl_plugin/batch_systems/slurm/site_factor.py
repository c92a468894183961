"""SiteFactor: an additive term of `priority/multifactor` that nobody else uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from slurm_rl_plugin.batch_systems.port import ApplyReport
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
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.writes import FactorWriter, ValueWrite

SPRIO = ("sprio", "--noheader", "-o", PRIORITY_FORMAT)


class SiteFactors:
    """Reads factors from `sprio`, which alone shows them, and writes them.

    Held jobs and jobs that are not eligible yet are not listed by `sprio`; their factor is what we
    last wrote or saw, 0 if never, and the rest of their priority is native. A priority set by hand
    hides our term.

    A factor of a heterogeneous job is that of its component with the lowest native priority; the
    other ones get what puts them at the same priority. Slurm sets the factor of all when told to
    set the leader's, so that is written first, and 0 needs no more.
    """

    def __init__(self, commands: CommandRunner, writer: FactorWriter) -> None:
        self._commands = commands
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

    def look(self, *, listed: bool = True) -> None:
        """Ask `sprio` for the terms of every pending job's priority, after the rows were read.

        Args:
            listed: False where `sprio` refuses to answer; then no job is listed.

        Raises:
            BatchSystemUnavailable: no answer in time.
            BatchSystemError: an answer that cannot be understood.
        """
        self._lines = parse_lines(self._commands.read(SPRIO), self._lines) if listed else {}
        self._listed = best_terms(self._lines.values(), {})

    def terms(self, waiting: Sequence[QueueRow], tiers: Mapping[str, int]) -> list[PriorityTerms]:
        """SiteFactor as ours, the rest of `sprio`'s terms; of several partitions the best.

        Args:
            waiting: one row of each job or array.
            tiers: partition -> its PriorityTier.
        """
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
        refused = self._writer.write(wanted).rejected
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
