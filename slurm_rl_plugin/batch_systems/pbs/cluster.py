"""OpenPBS: read by `qstat` and `pbsnodes`, ordered by an invisible resource in its formula."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.batch_systems.pbs.answers.fair_share import Fairshare, shares_of, usage_of
from slurm_rl_plugin.batch_systems.pbs.answers.fields import SCORE, PbsJob
from slurm_rl_plugin.batch_systems.pbs.answers.server import (
    QSTAT_SERVER,
    VNODES_NOW,
    PbsServer,
    SortSettings,
    parse_capacity,
    parse_nodes,
    parse_server,
)
from slurm_rl_plugin.batch_systems.pbs.batch_limit import PbsBatchLimit
from slurm_rl_plugin.batch_systems.pbs.process import (
    DEFAULT_HOME,
    HIGHEST_SCORE,
    QSTAT_QUEUES,
    SOUND_SCORES,
    PbsCommands,
    Qalter,
    ScoreWrite,
    installed_library,
    is_sound,
    section,
    sentence,
    write_scores,
)
from slurm_rl_plugin.batch_systems.pbs.queue import (
    PbsQueueReader,
    PbsTables,
    PbsWatch,
    ended_before,
    factor_of,
    gpus_of_queues,
    read_history,
)
from slurm_rl_plugin.batch_systems.pbs.setup import heartbeat_file, pbs_checks
from slurm_rl_plugin.batch_systems.port import (
    AdapterParts,
    ApplyReport,
    BatchSystem,
    Check,
    FactorChange,
    SchedulerFacts,
    SchedulerLoad,
    SiteNames,
)
from slurm_rl_plugin.domain import EndedJobs, QueueSnapshot, RunningJobs, StartedJobs
from slurm_rl_plugin.domain.nodes import resources_now
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.whole_file import write_whole


class Pbs(BatchSystem):
    """An OpenPBS cluster, reordered by the resource `rl_score` in its job_sort_formula.

    A factor is the difference between a job's score and the server's default of the resource. A
    factor of 0 clears the score.

    * An array is one row under its own number while a subjob waits; running subjobs are rows of
      their own, under numbers above 2**40.
    * PBS does not show the other terms of the site's formula: the native priority is the default.
    * Shares come from the configuration, else from `pbsfs`; else they are equal.
    """

    name = "pbs"

    def __init__(self, given: AdapterParts) -> None:
        self.commands = PbsCommands.of(given)
        library = installed_library(self.commands)
        self._queue = PbsQueueReader(self.commands, library)
        self._sender = library or Qalter(self.commands)
        self._fairshare = Fairshare(self.commands)
        self._sorting = SortSettings(self.commands, given.clock)
        self._given = given
        self._history_days = given.history_days  #: of past runs in the next snapshot
        self._limit = PbsBatchLimit(self.commands, given.limit, given.limits_file)
        self._heartbeat = given.state_file and heartbeat_file(given.state_file)
        self._gpus: Mapping[str, int] = {}  #: in use of each queue, in the last snapshot
        self._watch = PbsWatch()
        self._server: PbsServer | None = None
        self._looked: PbsServer | None = None

    def facts(self) -> SchedulerFacts:
        """Read the attributes of server, schedulers and queues.

        `pass_interval` is 0, since a submission or an end of a job starts a scheduling cycle.
        """
        server = self._looked = self.server()
        return SchedulerFacts(
            release=server.release,
            lever=SCORE,
            harm=server.harm() or self._sorting.harm(server.formula),
            points_an_hour=0.0,
            pass_interval=0.0,
            in_charge=True,
            highest_priority=HIGHEST_SCORE,
            write_cost=sentence("write_cost"),
            no_influence=sentence("no_influence"),
            alone=sentence("alone"),
        )

    def load(self) -> SchedulerLoad:
        """Counts of jobs; uses the last answer to `facts`, since a busy server takes 0.2 s."""
        server, self._looked = self._looked or self.server(), None
        return SchedulerLoad(struggles=server.struggles(), events=server.counts)

    def server(self) -> PbsServer:
        """Ask the server for its attributes."""
        self._server = parse_server(self.commands.read_json(QSTAT_SERVER))
        return self._server

    def own_checks(self, *, wants_runs: bool = False) -> Iterator[Check]:
        """Check what only PBS has: the score's resource and default, formula, hooks."""
        del wants_runs
        return pbs_checks(self.commands, self.server())

    def site_names(self) -> SiteNames:
        """Names of queues; PBS lists no accounts, and has no QOS."""
        try:
            queues = frozenset(section(self.commands.read_json(QSTAT_QUEUES), "Queue"))
        except BatchSystemError:
            queues = frozenset()
        return SiteNames(accounts=None, partitions=queues or None, qos=frozenset())

    def beat(self) -> None:
        """Touch the file by which the dead-man hook of pbs_server sees that the daemon lives."""
        if self._heartbeat is not None:
            write_whole(self._heartbeat, "", sync=False)

    def leave(self) -> None:
        """Remove the sign of life, since there is nothing left to undo."""
        if self._heartbeat is not None:
            self._heartbeat.unlink(missing_ok=True)

    def snapshot(self) -> QueueSnapshot:
        """Read the queue."""
        base = self._base()
        jobs = self._queue.jobs()
        nodes = self.commands.read_json(VNODES_NOW)
        capacity = max(parse_capacity(nodes), 1)
        machine = resources_now(parse_nodes(nodes))
        tree = self._fairshare.read()
        has_history = self._server is not None and self._server.keeps_history
        started, ended = self._watch.starts_and_ends(
            jobs, self._queue.ended if has_history else None
        )
        now = self._given.clock()
        running = [job for job in jobs if job.runs]
        build = PbsTables(
            self._given.shares or (), self._given.classifier, with_requests=machine is not None
        )
        waiting = [job for job in jobs if job.waits]
        counts = self._server is not None and self._server.counts_eligible_time
        last_start = self._watch.last_start
        pending = build.pending(waiting, base, now, last_start, counts_eligible_time=counts)
        running_jobs = replace(
            RunningJobs.seen(build.jobs(running), _starts(running), now),
            waited_as=np.array([job.array_id for job in running], dtype=np.int64),
        )
        self._gpus = gpus_of_queues(running)
        started_jobs = StartedJobs(jobs=build.jobs(started), start=_starts(started))
        ended_jobs = self._past(jobs, build, now) or EndedJobs(
            jobs=build.jobs(ended),
            start=_starts(ended),
            end=np.array([min(job.end, now) for job in ended], dtype=np.float64),
            # PBS ends a job a little after its limit, and hardly a job ends by itself just then
            timed_out=np.array(
                [job.end - job.start >= job.time_limit for job in ended], dtype=bool
            ),
        )
        accounts = build.accounts.all
        return QueueSnapshot(
            now=now,
            pending=pending,
            running=running_jobs,
            started=started_jobs,
            capacity=capacity,
            accounts=accounts,
            partitions=build.queues.all,
            shares=shares_of(accounts, self._given.shares, tree),
            usage=usage_of(accounts, tree, running, now),
            ended=ended_jobs,
            users=build.users.all,
            reasons=build.reasons.all,
            resources=machine,
        )

    def go_on_from(self, earlier: BatchSystem) -> None:
        """Take over the earlier adapter's watch of jobs, and the limits that it might have set."""
        if isinstance(earlier, Pbs):
            self._watch = earlier._watch
            self._limit.go_on_from(earlier._limit)

    def tell_past(self, days: float) -> None:
        """Report past runs in the next snapshot."""
        self._history_days = days

    def apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        """Write scores: the server's default plus our factor; a factor of 0 clears the score."""
        base = self._base()
        wanted = {change.job_id: base + change.new if change.new else None for change in changes}
        return self._write(wanted)

    def release(self, job_ids: IntArray | None = None) -> ApplyReport:
        """Clear the scores of these jobs, or of every pending job with our factor."""
        base = self._base()  # the score of a job after it was cleared
        if job_ids is None:
            jobs = [*self._queue.jobs(), *self._queue.namesakes]
            carrying = [job for job in jobs if job.waits and factor_of(job, base)]
            return self._write(dict.fromkeys([job.job_id for job in carrying]))
        return self._write(dict.fromkeys(int(job_id) for job_id in job_ids))

    def limit_batch(self, amounts: Mapping[str, int] | None) -> None:
        """Limit the batch queues together, by `max_run_res` of each.

        Several queues share the amounts by their running and pending jobs, so call this again when
        the queue has changed.
        """
        self._limit.set(amounts, self._gpus)

    def _write(self, wanted: Mapping[int, int | None]) -> ApplyReport:
        if any(job_id not in self._queue.names for job_id in wanted):
            self._queue.jobs()
        rejected: dict[int, str] = {}
        later: frozenset[int] = frozenset()
        writes: dict[str, int] = {}
        scores: list[ScoreWrite] = []
        for job_id, score in wanted.items():
            names = self._names(job_id, takes_away=score is None)
            if not names:
                rejected[job_id] = "Unknown Job Id"
            elif score is not None and not is_sound(score):
                rejected[job_id] = f"score {score} is not a whole number in {SOUND_SCORES}"
            else:
                writes.update(dict.fromkeys(names, job_id))
                scores += [ScoreWrite(name, score and int(score)) for name in names]
        if scores:
            default = self._server.default_score if self._server else None
            refused, waiting = write_scores(self._sender, scores, default)
            rejected.update((writes[name], words) for name, words in refused.items())
            later = frozenset(writes[name] for name in waiting)
        accepted = frozenset(wanted.keys() - rejected.keys())
        return ApplyReport(accepted=accepted, rejected=rejected, later=later)

    def _names(self, job_id: int, *, takes_away: bool) -> list[str]:
        """PBS's name of the job; all jobs with this number if scores are removed."""
        if job_id in self._queue.names:
            return [self._queue.names[job_id]]
        return [job.name for job in self._queue.namesakes if takes_away and job.job_id == job_id]

    def _base(self) -> int:
        return (self._server or self.server()).base

    def _past(self, jobs: Sequence[PbsJob], build: PbsTables, now: float) -> EndedJobs | None:
        days, self._history_days = self._history_days, 0.0
        home = self.commands.conf.get("PBS_HOME", DEFAULT_HOME)
        log = read_history(home, days, now)
        return ended_before(log, {job.job_id for job in jobs}, build.users) if log else None


def _starts(jobs: Sequence[PbsJob]) -> FloatArray:
    return np.array([job.start for job in jobs], dtype=np.float64)
