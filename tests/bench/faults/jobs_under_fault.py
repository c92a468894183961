"""Sleep jobs of all kinds on a cluster under a fault: submitted, watched, and all to complete."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.real.cluster_files import ClusterPlan
from tests.real.conftest import ACCOUNTS
from tests.real.private_cluster import PrivateSlurm

PENDING, COMPLETED = "PENDING", "COMPLETED"
#: Why Slurm itself holds a job that it started and forgot, as it was killed before it saved that.
LAUNCH_FAILED = "launch failed requeued held"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJob:
    """A job, or a task of an array, as `squeue` lists it; times in seconds since the epoch.

    Attributes:
        job: its number, with the task's for arrays.
        state: Slurm's word.
        reason: why it waits, in Slurm's word.
        restarts: how often it was run again.
        eligible: since when it could start; None where Slurm gives no time.
        start: None where it has not started.
        processors: that it asked for.
        priority: 0 for a held one.
    """

    job: str
    state: str
    reason: str
    restarts: int
    eligible: float | None
    start: float | None
    processors: int
    priority: int

    @property
    def held(self) -> bool:
        """Whether somebody keeps it from starting."""
        if self.state != PENDING or self.launch_failed:
            return False
        return self.reason.startswith("JobHeld") or self.priority == 0

    @property
    def launch_failed(self) -> bool:
        """Whether Slurm itself holds it; see LAUNCH_FAILED."""
        return self.reason.replace("_", " ") == LAUNCH_FAILED

    @property
    def wait(self) -> float:
        """Seconds from eligible to start; 0 where it has not started."""
        if self.eligible is None or self.start is None:
            return 0.0
        return max(self.start - self.eligible, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Jobs to which harm was done, by number; each with what is said of it."""

    lost: Sequence[str] = ()
    held: Sequence[str] = ()
    failed: Sequence[str] = ()
    starved: Sequence[str] = ()

    @property
    def harmed(self) -> list[str]:
        """All of them."""
        return [*self.lost, *self.held, *self.failed, *self.starved]


def lost(submitted: Collection[str], seen: Mapping[str, SeenJob]) -> list[str]:
    """Jobs that nobody knows any more."""
    return sorted(set(submitted) - set(seen))


def held(seen: Mapping[str, SeenJob], by_users: Collection[str]) -> list[str]:
    """Jobs that are held, and not by their users."""
    found = [each for each in seen.values() if each.held and each.job not in by_users]
    return [f"{each.job} ({each.reason})" for each in found]


def failed(
    seen: Mapping[str, SeenJob], cancelled: Collection[str], *, reruns: bool
) -> Iterator[str]:
    """Jobs that did not run to their end, or were run again.

    Args:
        seen: every job once all have ended.
        cancelled: by their users, on purpose.
        reruns: running again is Slurm's own doing.
    """
    for job in seen.values():
        if job.job not in cancelled and job.state != COMPLETED:
            yield f"{job.job} ({job.state})"
        elif job.restarts and not reruns:
            yield f"{job.job} (run again {job.restarts} times)"


def starved(
    jobs: Collection[SeenJob], bound: float, grace: float, until: float = math.inf
) -> list[str]:
    """Jobs that others passed though they had waited beyond the bound.

    One is passed where another with as many processors or more, which had not waited so long,
    starts before it.

    Args:
        jobs: that have started.
        bound: seconds after which a job goes first.
        grace: seconds more in which nobody could see to that.
        until: from then on no daemon orders the queue, seconds since the epoch.
    """
    found = []
    for job in jobs:
        if job.eligible is None or job.start is None:
            continue
        due = job.eligible + bound + grace
        passed = [
            each.job
            for each in jobs
            if each.start is not None
            and due < each.start < min(job.start, until)
            and each.processors >= job.processors
            and each.wait <= bound
        ]
        if passed:
            found.append(f"{job.job} (waited {job.wait:.0f} s, passed by {' '.join(passed)})")
    return found


#: Processors that jobs may use at first, and of the node.
FEW, ALL = 4, 24
#: One partition, narrow until all is seen; a job that is done is remembered for the whole run.
PLAN = ClusterPlan(
    nodes=1,
    processors_per_node=ALL,
    accounts=ACCOUNTS,
    options={"MinJobAge": "7200", "MessageTimeout": "5", "SlurmdTimeout": "7200"},
    partitions=(
        f"PartitionName=batch Nodes=ALL Default=YES MaxTime=1-0 State=UP MaxCPUsPerNode={FEW}",
    ),
)
#: Seconds that a job sleeps.
SHORTEST, LONGEST = 3, 8
_FIELDS = (
    *("JobArrayID", "State", "Reason", "RestartCnt", "EligibleTime", "StartTime", "NumCPUs"),
    "PriorityLong",
)
_FORMAT = ",".join(f"{name}:|" for name in _FIELDS)
_USERS = (("alice", "physics"), ("bob", "biology"))


@dataclass(slots=True)
class JobsUnderFault:
    """The jobs of one run.

    Attributes:
        cluster: where they are.
        rng: draws them.
    """

    cluster: PrivateSlurm
    rng: random.Random
    submitted: set[str] = field(default_factory=set)
    held_by_users: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    requeued: set[str] = field(default_factory=set)
    wide: str = ""
    _closed: float = math.inf
    _last: float = 0.0

    def submit_first(self) -> None:
        """One of each kind, and some more: wide, in an array, held, with a nice value, waiting."""
        self.wide = self._submit(processors=FEW)
        self.submit(12)
        self.submit_array()
        self.held_by_users.add(self._submit("--hold"))
        self._submit("--nice=70")
        self._submit(f"--dependency=afterany:{self.wide}")

    def submit(self, number: int) -> list[str]:
        """So many plain ones."""
        return [self._submit(processors=self.rng.choice((1, 1, 2))) for _ in range(number)]

    def submit_array(self) -> str:
        """An array of six tasks; its number."""
        array = self._submit("--array=1-6")
        self.submitted.discard(array)
        self.submitted |= {f"{array}_{task}" for task in range(1, 7)}
        return array

    def forget_all(self) -> None:
        """Slurm has, too."""
        for jobs in (self.submitted, self.held_by_users, self.cancelled, self.requeued):
            jobs.clear()
        self.wide = ""

    def _submit(self, *options: str, processors: int = 1) -> str:
        user, account = self.rng.choice(_USERS)
        job = str(
            self.cluster.submit(
                *options,
                user=user,
                account=account,
                processors=processors,
                minutes=self.rng.randint(60, 600),
                seconds=self.rng.randint(SHORTEST, LONGEST),
            )
        )
        self.submitted.add(job)
        self._last = time.time()  # noqa: TID251 - compared with the time of a file
        return job

    def wait_until_saved(self) -> None:
        """Wait until slurmctld has written down all that was submitted."""
        state = self.cluster.directory / "state" / "job_state"
        self.cluster.wait_until(
            lambda: state.exists() and state.stat().st_mtime > self._last, 30, "a saved state"
        )

    def seen(self) -> dict[str, SeenJob]:
        """Every job that Slurm knows, by number."""
        done = self.cluster.run(
            *("squeue", "-h", "-r", "-t", "all", "-O", _FORMAT), env={"SLURM_TIME_FORMAT": "%s"}
        )
        jobs = (_job(line.split("|")) for line in done.stdout.splitlines())
        return {each.job: each for each in jobs}

    def held_by_us(self) -> list[str]:
        return held(self.seen(), self.held_by_users)

    def close(self) -> None:
        """Nothing starts any more; what runs waits again, and what its user held is released."""
        self.cluster.run("scontrol", "update", "partition=batch", "state=down")
        self._free_failed_launches()
        starts = [each.start for each in self.seen().values() if each.start is not None]
        self._closed = max(starts, default=math.inf) + 1.0
        for job in self.held_by_users:
            self.cluster.run("scontrol", "release", job, check=False)
        self.held_by_users.clear()
        running = [each.job for each in self.seen().values() if each.state == "RUNNING"]
        for job in running:
            self.cluster.run("scontrol", "requeue", job, check=False)
        self.requeued |= set(running)
        still = ("RUNNING", "COMPLETING", "CONFIGURING")
        self.cluster.wait_until(
            lambda: _slowly(all(each.state not in still for each in self.seen().values())),
            60,
            "none runs",
        )
        for job in running:  # Slurm lets them wait for two minutes
            self.cluster.run("scontrol", "update", f"jobid={job}", "starttime=now", check=False)

    def factors_left(self) -> list[str]:
        """Waiting jobs that carry a factor, once Slurm shows one of each that waits."""
        waiting = {each.job for each in self.seen().values() if each.state == PENDING}
        numbers = {job.partition("_")[0] for job in waiting}
        shown: dict[int, int] = {}

        def all_shown() -> bool:
            shown.clear()
            shown.update(site_factors_of_tasks(self.cluster))
            listed = self.cluster.run("sprio", "-h", "-o", "%i").stdout.split()
            missing = numbers - {each.partition("_")[0] for each in listed}
            for job in missing:  # it came while the clock was ahead: its time is still to come
                self.cluster.run("scontrol", "update", f"jobid={job}", "starttime=now", check=False)
            return _slowly(not missing)

        self.cluster.wait_until(all_shown, 60, f"sprio lists {sorted(numbers)}")
        return [f"{job} ({factor})" for job, factor in sorted(shown.items()) if factor]

    def finish(self) -> None:
        """Let all of them run at once, and wait until none is left."""
        more = ("state=up", f"maxcpuspernode={ALL}")
        self.cluster.run("scontrol", "update", "partition=batch", *more)
        self.cluster.wait_until(lambda: _slowly(self._all_ended()), 120, "all jobs done")

    def _all_ended(self) -> bool:
        """Those that Slurm itself requeued need not wait for two minutes."""
        self._free_failed_launches()
        here = self.cluster.run("squeue", "-h", "-o", "%i %r").stdout.splitlines()
        for job, reason in (line.split(maxsplit=1) for line in here):
            if reason == "BeginTime":
                self.cluster.run("scontrol", "update", f"jobid={job}", "starttime=now", check=False)
        return not here

    def _free_failed_launches(self) -> None:
        """As an administrator would, who also puts back the node that Slurm took out for it."""
        if "drain" in self.cluster.run("sinfo", "-h", "-o", "%t %T").stdout:
            self.cluster.run("scontrol", "update", "nodename=n1", "state=resume", check=False)
        for each in self.seen().values():
            if each.state == PENDING and each.launch_failed:
                self.cluster.run("scontrol", "release", each.job, check=False)

    def verdict(self, bound: float, grace: float, *, reruns: bool) -> Verdict:
        """After the end of all.

        Args:
            bound: of starvation, seconds.
            grace: seconds in which nobody could order the queue.
            reruns: that a job was run again is Slurm's own doing.
        """
        seen = {job: each for job, each in self.seen().items() if job in self.submitted}
        late = [each for each in seen.values() if each.job not in self.requeued]
        again = {job for job in self.requeued if job in seen}
        plain = {job: each for job, each in seen.items() if job not in again}
        rerun = {job: each for job, each in seen.items() if job in again}
        return Verdict(
            lost=lost(self.submitted, seen),
            held=held(seen, self.held_by_users),
            failed=[
                *failed(plain, self.cancelled, reruns=reruns),
                *failed(rerun, self.cancelled, reruns=True),
            ],
            starved=[
                *starved(late, bound, grace, self._closed),
                *self._wide_starved(seen, bound + grace),
            ],
        )

    def _wide_starved(self, seen: dict[str, SeenJob], bound: float) -> Iterator[str]:
        """The wide one needs all processors, which must be emptied for it."""
        wide = seen.get(self.wide)
        if wide is not None and wide.job not in self.requeued and wide.wait > bound + 2 * LONGEST:
            yield f"{wide.job} (wide, waited {wide.wait:.0f} s)"


def _slowly(done: bool) -> bool:
    """Polled through Slurm's commands, which cost more than a look at a file."""
    if not done:
        time.sleep(0.4)
    return done


def site_factors_of_tasks(cluster: PrivateSlurm) -> dict[int, int]:
    """As `site_factors`; of an array whose records differ, one that is not 0."""
    lines = cluster.run("sprio", "-h", "-o", "%i %S").stdout.splitlines()
    found: dict[int, int] = {}
    for job, factor in map(str.split, lines):
        number, value = int(job.partition("_")[0]), int(float(factor))
        found[number] = value or found.get(number, 0)
    return found


def _job(words: list[str]) -> SeenJob:
    job, state, reason, restarts, eligible, start, processors, priority = (
        word.strip() for word in words[: len(_FIELDS)]
    )
    return SeenJob(
        job=job,
        state=state,
        reason=reason,
        restarts=int(restarts),
        eligible=_time(eligible),
        start=_time(start) if state != PENDING else None,
        processors=int(processors),
        priority=int(priority),
    )


def _time(word: str) -> float | None:
    return float(word) if word.isdigit() else None
