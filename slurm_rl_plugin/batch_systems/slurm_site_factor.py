"""SiteFactor as the lever: an additive term of `priority/multifactor` that nobody else uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slurm_rl_plugin.batch_systems.port import ApplyReport
from slurm_rl_plugin.batch_systems.slurm_fields import QueueRow
from slurm_rl_plugin.batch_systems.slurm_priorities import (
    PRIORITY_FORMAT,
    ROUNDING,
    ListedJob,
    PriorityTerms,
    best_terms,
    parse_lines,
)
from slurm_rl_plugin.batch_systems.slurm_process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm_writes import Change, FactorWriter

SPRIO = ("sprio", "--noheader", "-o", PRIORITY_FORMAT)


class SiteFactorLever:
    """Reads factors from `sprio`, which alone shows them, and writes them; see `Lever`.

    Held jobs and jobs that are not eligible yet are not listed by `sprio`; their factor is what we
    last wrote or saw, 0 if never, and the rest of their priority is native. A priority set by hand
    hides our term.
    """

    name = "SiteFactor"

    def __init__(self, commands: CommandRunner, writer: FactorWriter) -> None:
        self._commands = commands
        self._writer = writer
        self._lines: Mapping[str, ListedJob] = {}
        self._listed: Mapping[int, PriorityTerms] = {}
        #: Factors that we wrote or saw, by array number: `sprio` does not list every job.
        self._factors: dict[int, int] = {}
        #: Arrays whose factor did not show once.
        self._doubted: set[int] = set()

    def look(self) -> None:
        """See `Lever.look`."""
        self._lines = parse_lines(self._commands.read(SPRIO), self._lines)
        self._listed = best_terms(self._lines.values())

    def terms(self, waiting: Sequence[QueueRow]) -> list[PriorityTerms]:
        """See `Lever.terms`."""
        terms = [self._terms(row) for row in waiting]
        self._doubted.intersection_update(row.array_id for row in waiting)
        self._factors = {
            row.array_id: self._factors.get(row.array_id, 0) if term.by_hand else term.site
            for row, term in zip(waiting, terms, strict=True)
        }
        return terms

    def carrying(self, rows: Sequence[QueueRow]) -> list[int]:
        """See `Lever.carrying`; those whose factor cannot be seen are among them."""
        chosen: dict[int, None] = {}
        for row in rows:
            terms = self._listed.get(row.job_id)
            if terms is None or terms.by_hand or terms.site:
                chosen[row.array_id] = None
        return list(chosen)

    def write(self, changes: Sequence[Change]) -> ApplyReport:
        """See `Lever.write`."""
        if not changes:
            return ApplyReport(applied=0, rejected={})
        report = self._writer.write(changes)
        for job_id, factor in changes:
            if job_id not in report.rejected:
                self._factors[job_id] = factor
        return report

    def _hides(self, row: QueueRow, listed: PriorityTerms) -> bool:
        """Whether a priority of 1 to 4, which looks like one without any points, was set by hand.

        Then it hides what we write. One write may have been lost by slurmctld; where the factor
        does not show after a second one, it is hidden.
        """
        if listed.site != 0 or listed.native > ROUNDING:
            self._doubted.discard(row.array_id)
            return False
        if self._factors.get(row.array_id, 0) == 0:
            return False
        doubted = row.array_id in self._doubted
        self._doubted.add(row.array_id)
        return doubted

    def _terms(self, row: QueueRow) -> PriorityTerms:
        listed = self._listed.get(row.job_id)
        if listed is not None:
            return replace(listed, by_hand=True) if self._hides(row, listed) else listed
        factor = self._factors.get(row.array_id, 0)
        native = max(row.priority - factor, 1) if row.priority else 0
        return PriorityTerms(native=native, site=factor, by_hand=False)
