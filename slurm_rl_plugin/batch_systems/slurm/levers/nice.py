"""Nice as the lever, for sites with `priority/basic`, where SiteFactor has no effect.

A user's own nice value stands in the same place, so it is remembered and given back. Slurm tells
slurmdbd of every change of nice: that is the price. And a change of nice frees a held job (seen on
22.05): so none is written to an array of which anything is held, and who is held is asked just
before each small burst. A job that was ordered and then held keeps our value until it is free.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.batch_systems.kept_record import UNREADABLE
from slurm_rl_plugin.batch_systems.port import ApplyReport, LeverTraits
from slurm_rl_plugin.batch_systems.slurm.answers.fields import HELD_REASONS, QueueRow
from slurm_rl_plugin.batch_systems.slurm.answers.priorities import PriorityTerms
from slurm_rl_plugin.batch_systems.slurm.levers.writes import FactorWriter, ValueWrite
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import PRIVATE, read_whole, version_of, write_whole

logger = logging.getLogger(__name__)
_VERSION = 1
#: Jobs whose own value is remembered, the newest; older ones have long been gone.
JOBS_AT_MOST = 100_000
#: Writes between two looks at who is held.
BURST = 100
#: Why a held job is not written.
HELD = "it is held, and a change of nice would free it"


@dataclass(frozen=True, slots=True)
class GivenNice:
    """What a job's nice was before us, and every value that we may have put in its place.

    Several: a write that no look has confirmed may have been lost.
    """

    own: int
    ours: frozenset[int]


class NiceLever:
    """Our factor is how far nice stands below the user's own value; see `Lever`.

    Args:
        writer: sends nice values.
        waiting: reads the rows of all waiting jobs.
        path: file that keeps the users' values across restarts, read at the first use and where
            the daemon beside another controller wrote it; None keeps none.
    """

    name = "Nice"
    traits = LeverTraits(
        cost="Nice, since PriorityType is priority/basic: users' own values are remembered and "
        "given back; each write is a message to slurmdbd",
        costly=True,
    )

    def __init__(
        self,
        writer: FactorWriter,
        waiting: Callable[[], Sequence[QueueRow]],
        path: Path | None,
    ) -> None:
        self._writer = writer
        self._waiting = waiting
        self._path = path
        self._known: dict[int, GivenNice] | None = None
        self._version: tuple[int, int] | None = None
        #: The user's own value of each waiting job, by array number.
        self._seen: dict[int, int] = {}

    @property
    def _given(self) -> dict[int, GivenNice]:
        """What was given to whom; an unreadable record stops us, or our values would pass as own.

        Raises:
            ConfigurationError: the file cannot be read or is no such file.
        """
        if self._known is None:
            if self._path is not None:
                self._version = version_of(self._path)
            self._known = {} if self._path is None else _read(self._path)
        return self._known

    def _read_if_changed(self) -> None:
        version = None if self._path is None else version_of(self._path)
        if version is not None and version != self._version:
            self._known = None

    @property
    def carries(self) -> bool:
        """Whether the file of users' own nice values names a job."""
        self._read_if_changed()
        return bool(self._given)

    def look(self) -> None:
        """Read the file of users' own nice values if it has changed; the queue shows the rest."""
        self._read_if_changed()

    def terms(self, waiting: Sequence[QueueRow], tiers: Mapping[str, int]) -> list[PriorityTerms]:
        """Our factor, which is how far nice stands below the user's own value, and the rest.

        Jobs that wait no longer stay in the file: they may be requeued.
        """
        del tiers  # a priority is the same in all partitions
        self._seen.clear()
        return [self._terms(row) for row in waiting]

    def carrying(self, rows: Sequence[QueueRow]) -> list[int]:
        """Those of the jobs whose users' own values are kept in the file."""
        return [
            array_id for array_id in {row.array_id: None for row in rows} if self._has(array_id)
        ]

    def give_back(self, job_ids: Sequence[int] = ()) -> ApplyReport:
        """Write the user's own value to every job in the file; all other jobs have theirs."""
        del job_ids
        return self.write([(job_id, 0) for job_id in self._given])

    def write(self, changes: Sequence[ValueWrite]) -> ApplyReport:
        """Set nice to the user's own value less the factor; a factor of 0 gives the own value back.

        Raises:
            ConfigurationError: the users' values cannot be remembered; then nothing is written,
                but values given back.
        """
        self._read_if_changed()
        known = [(job_id, factor) for job_id, factor in changes if factor or self._has(job_id)]
        applied, rejected = len(changes) - len(known), {}  # who has nothing of ours loses nothing
        for first in range(0, len(known), BURST):
            report = self._write_burst(known[first : first + BURST])
            applied += report.applied
            rejected.update(report.rejected)
        later = frozenset(job_id for job_id, words in rejected.items() if words == HELD)
        return ApplyReport(applied=applied, rejected=rejected, later=later)

    def _write_burst(self, changes: Sequence[ValueWrite]) -> ApplyReport:
        rows = self._waiting()
        for row in rows:
            self._forget_if_changed(row)
        held = {row.array_id for row in rows if _any_held(row)}
        rejected = {job_id: HELD for job_id, _ in changes if job_id in held}
        free = [each for each in changes if each[0] not in held and (each[1] or self._has(each[0]))]
        wanted = [(job_id, self._own(job_id) - factor) for job_id, factor in free]
        gone = len(changes) - len(rejected) - len(free)  # a user's own value stands there already
        if not wanted:
            return ApplyReport(applied=gone, rejected=rejected)
        for job_id, nice in wanted:
            before = self._given.get(job_id, GivenNice(self._own(job_id), frozenset()))
            self._given[job_id] = GivenNice(before.own, before.ours | {nice})
        self._keep(tolerant=not any(factor for _, factor in free))
        report = self._writer.write(wanted)
        for (job_id, factor), (_, nice) in zip(free, wanted, strict=True):
            if job_id not in report.rejected:
                self._confirm(job_id, nice, gone=factor == 0)
        self._keep(tolerant=True)
        return ApplyReport(applied=report.applied + gone, rejected={**rejected, **report.rejected})

    def _forget_if_changed(self, row: QueueRow) -> None:
        """Take a value that somebody has set since for the user's own."""
        given = self._given.get(row.array_id)
        if given is not None and row.nice not in given.ours and row.nice != given.own:
            del self._given[row.array_id]
            self._seen[row.array_id] = row.nice

    def _terms(self, row: QueueRow) -> PriorityTerms:
        self._forget_if_changed(row)
        given = self._given.get(row.array_id)
        own = self._seen[row.array_id] = row.nice if given is None else given.own
        factor = own - row.nice
        native = max(row.priority - factor, 1) if row.priority else 0
        # one write sets nice of all components: values that differ could not be given back
        by_hand = len({each.nice for each in row.components}) > 1
        return PriorityTerms(native=native, site=factor, by_hand=by_hand, own_nice=own)

    def _has(self, job_id: int) -> bool:
        return job_id in self._given

    def _own(self, job_id: int) -> int:
        given = self._given.get(job_id)
        return self._seen.get(job_id, 0) if given is None else given.own

    def _confirm(self, job_id: int, nice: int, *, gone: bool) -> None:
        if gone:
            del self._given[job_id]
        else:
            self._given[job_id] = GivenNice(self._given[job_id].own, frozenset({nice}))

    def _keep(self, *, tolerant: bool = False) -> None:
        """Write the file; `tolerant` where values are given back, full disk or not."""
        newest = sorted(self._given)[-JOBS_AT_MOST:]
        self._known = {job: self._given[job] for job in newest}
        if self._path is None:
            return
        jobs = {str(job): [each.own, sorted(each.ours)] for job, each in self._given.items()}
        try:
            content = json.dumps({"version": _VERSION, "jobs": jobs})
            write_whole(self._path, content, mode=PRIVATE)
            self._version = version_of(self._path)
        except OSError as error:
            if tolerant:
                logger.error("nice=unwritable path=%s error=%s", self._path, error)
                return
            raise ConfigurationError(
                f"{self._path}, which keeps the users' nice values, cannot be written "
                f"({error.strerror}): make its folder writable for this user."
            ) from None


def _any_held(row: QueueRow) -> bool:
    """Whether it or a task of it is held; `squeue` shows the reasons of an array in one list."""
    return row.held or any(part.strip() in HELD_REASONS for part in row.reason.split(","))


def _read(path: Path) -> dict[int, GivenNice]:
    """What the file keeps; nothing without a file.

    Raises:
        ConfigurationError: the file cannot be read or is no such file.
    """
    try:
        content = json.loads(read_whole(path))
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']}")
        return {
            int(job): GivenNice(int(own), frozenset(int(value) for value in ours))
            for job, (own, ours) in content["jobs"].items()
        }
    except FileNotFoundError:
        return {}
    except PermissionError:
        raise ConfigurationError(
            f"{path}, which keeps the users' nice values, may not be read by this user: run it as "
            "the daemon's user or a member of its group."
        ) from None
    except UNREADABLE as error:
        raise ConfigurationError(
            f"{path}, which keeps the users' nice values, cannot be read ({error}): restore it, or "
            "move it away where no job has a nice value of ours."
        ) from None
