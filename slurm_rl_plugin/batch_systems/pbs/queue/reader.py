"""Reads the jobs of the queue: through libpbs where it is installed, else by `qstat`."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slurm_rl_plugin.batch_systems.pbs.answers.fields import (
    ATTRIBUTES,
    NEWER_ATTRIBUTES,
    PbsJob,
    is_array,
    parse_job,
    text,
)
from slurm_rl_plugin.batch_systems.pbs.answers.nodes import QSTAT_QUEUES
from slurm_rl_plugin.batch_systems.pbs.lever.libpbs import PbsLibrary
from slurm_rl_plugin.batch_systems.pbs.process import (
    QSTAT_BY_NAME,
    QSTAT_JOBS,
    PbsCommands,
    section,
)
from slurm_rl_plugin.errors import BatchSystemError

logger = logging.getLogger(__name__)


class PbsQueueReader:
    """Asks PBS for its jobs, and keeps what PBS calls each.

    Args:
        commands: of PBS.
        library: None for an installation without it.
    """

    def __init__(self, commands: PbsCommands, library: PbsLibrary | None) -> None:
        self._commands = commands
        self._library = library
        #: What PBS calls each job, by its number, at the last look.
        self.names: dict[int, str] = {}
        #: Those of one number at the last look, of which none is in `names`.
        self.namesakes: list[PbsJob] = []
        #: Numbers of several jobs that were told of.
        self._told: set[int] = set()

    def jobs(self) -> list[PbsJob]:
        """All jobs that wait or run, with those subjobs of arrays that have started.

        By libpbs, which is asked for what is needed only; `qstat` gives all attributes of all jobs.

        Raises:
            BatchSystemUnavailable: no answer in time.
            BatchSystemError: an answer that cannot be understood.
        """
        if self._library is not None:
            jobs = _parsed(self._library.ask({"read": ATTRIBUTES, "newer": NEWER_ATTRIBUTES}))
        else:
            jobs = self._read(QSTAT_JOBS)
        begun = [job.name for job in jobs if job.has_begun and is_array(job.name)]
        if begun:
            subjobs = self._read([*QSTAT_BY_NAME, "-t", *begun], or_nothing=True)
            jobs += [job for job in subjobs if job.is_under_way and not is_array(job.name)]
        jobs = self._without_namesakes(self._not_yet_routed(jobs))
        self.names = {job.job_id: job.name for job in jobs}
        return jobs

    def ended(self, names: Sequence[str]) -> list[PbsJob]:
        """Those of the named jobs that the server still knows; raises as `jobs` does."""
        return self._read([*QSTAT_BY_NAME, "-x", *names], or_nothing=True)

    def _not_yet_routed(self, jobs: list[PbsJob]) -> list[PbsJob]:
        """All jobs, those in routing queues not eligible: the scheduler does not know of them.

        Where PBS tells nothing of its queues nothing changes: a release must not wait for that.
        """
        if all(job.has_etime or job.state != "Q" for job in jobs):
            return jobs
        try:
            queues = section(self._commands.read_json(QSTAT_QUEUES), "Queue")
        except BatchSystemError:
            return jobs
        routing = {
            name
            for name, values in queues.items()
            if text(values.get("queue_type")).lower().startswith("r")
        }
        return [
            replace(job, eligible=math.inf) if job.queue in routing and not job.has_etime else job
            for job in jobs
        ]

    def _without_namesakes(self, jobs: list[PbsJob]) -> list[PbsJob]:
        """All but those of one number, which peer scheduling brings here from several servers.

        A score that is meant for one of them could reach another; what is taken away may.
        """
        several = {number for number, count in Counter(j.job_id for j in jobs).items() if count > 1}
        for number in sorted(several - self._told):
            names = " ".join(sorted(job.name for job in jobs if job.job_id == number))
            logger.warning("jobs=left_alone reason=one_number_of_several_jobs jobs=%r", names)
        self._told |= several
        self.namesakes = [job for job in jobs if job.job_id in several]
        return [job for job in jobs if job.job_id not in several] if several else jobs

    def _read(self, arguments: Sequence[str], *, or_nothing: bool = False) -> list[PbsJob]:
        return _parsed(self._commands.read_json(arguments, or_nothing=or_nothing))


def _parsed(document: Mapping[str, Any]) -> list[PbsJob]:
    found = (parse_job(name, values) for name, values in section(document, "Jobs").items())
    return [job for job in found if job is not None]
