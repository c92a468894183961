"""Sleep jobs of all kinds on a cluster under a fault, and what became of them."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from tests.real.cluster_files import ClusterPlan
from tests.real.conftest import ACCOUNTS
from tests.real.private_cluster import PrivateSlurm

PENDING, COMPLETED = "PENDING", "COMPLETED"
#: Reason of a job that Slurm holds itself: slurmctld was killed before it saved the start.
LAUNCH_FAILED = "launch failed requeued held"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJob:
    """A job, or a task of an array, as `squeue` lists it; times in seconds since the epoch."""

    job: str  #: number, with the task's for arrays
    #: state, reason: as Slurm names them.
    state: str
    reason: str
    restarts: int  #: number of restarts
    eligible: float | None  #: None if Slurm gives no time
    start: float | None  #: None if it has not started
    processors: int  #: requested
    priority: int  #: 0 if it is held

    @property
    def held(self) -> bool:
        """Whether a user or an administrator holds it."""
        if self.state != PENDING or self.launch_failed:
            return False
        return self.reason.startswith("JobHeld") or self.priority == 0

    @property
    def launch_failed(self) -> bool:
        """Whether Slurm holds it; see LAUNCH_FAILED."""
        return self.reason.replace("_", " ") == LAUNCH_FAILED

    @property
    def wait(self) -> float:
        """Seconds from eligible to start; 0 if it has not started."""
        if self.eligible is None or self.start is None:
            return 0.0
        return max(self.start - self.eligible, 0.0)


def lost(submitted: Collection[str], seen: Mapping[str, SeenJob]) -> list[str]:
    """Jobs that Slurm does not know any more."""
    return sorted(set(submitted) - set(seen))


def held(seen: Mapping[str, SeenJob], by_users: Collection[str]) -> list[str]:
    """Jobs that are held by others than their users."""
    found = [each for each in seen.values() if each.held and each.job not in by_users]
    return [f"{each.job} ({each.reason})" for each in found]


def failed(
    seen: Mapping[str, SeenJob], cancelled: Collection[str], *, reruns: bool
) -> Iterator[str]:
    """Jobs that did not complete, or ran again.

    Args:
        seen: every job after all have ended.
        cancelled: jobs that their users cancelled.
        reruns: Slurm itself may run a job again.
    """
    for job in seen.values():
        if job.job not in cancelled and job.state != COMPLETED:
            yield f"{job.job} ({job.state})"
        elif job.restarts and not reruns:
            yield f"{job.job} (run again {job.restarts} times)"


def starved(
    jobs: Collection[SeenJob], bound: float, grace: float, until: float = math.inf
) -> list[str]:
    """Jobs that waited beyond the bound while another job of their size passed them.

    Another job passes if it has as many processors or more, has not waited beyond the bound, and
    starts first.

    Args:
        jobs: jobs that have started.
        bound: seconds after which a job goes first.
        grace: seconds in which no daemon could order the queue.
        until: time from which no daemon orders the queue, seconds since the epoch.
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


#: Processors that jobs may use during the fault, and processors of the node.
FEW, ALL = 4, 24
#: One partition; Slurm remembers ended jobs for the whole run.
PLAN = ClusterPlan(
    nodes=1,
    processors_per_node=ALL,
    accounts=ACCOUNTS,
    options={"MinJobAge": "7200", "MessageTimeout": "5", "SlurmdTimeout": "7200"},
    partitions=(
        f"PartitionName=batch Nodes=ALL Default=YES MaxTime=1-0 State=UP MaxCPUsPerNode={FEW}",
    ),
)
#: Run times, seconds.
SHORTEST, LONGEST = 3, 8
_FIELDS = (
    *("JobArrayID", "State", "Reason", "RestartCnt", "EligibleTime", "StartTime", "NumCPUs"),
    "PriorityLong",
)
_FORMAT = ",".join(f"{name}:|" for name in _FIELDS)
_USERS = ("alice", "bob")


@dataclass(slots=True)
class JobsUnderFault:
    """The jobs of one trial."""

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
        """Submits jobs of each kind: wide, plain, an array, held, with a nice value, dependent."""
        self.wide = self._submit(processors=FEW)
        self.submit(12)
        self.submit_array()
        self.held_by_users.add(self._submit("--hold"))
        self._submit("--nice=70")
        self._submit(f"--dependency=afterany:{self.wide}")

    def submit(self, number: int) -> list[str]:
        """Submits plain jobs."""
        return [self._submit(processors=self.rng.choice((1, 1, 2))) for _ in range(number)]

    def submit_array(self) -> str:
        """Submits an array of six tasks; returns its number."""
        array = self._submit("--array=1-6")
        self.submitted.discard(array)
        self.submitted |= {f"{array}_{task}" for task in range(1, 7)}
        return array

    def forget_all(self) -> None:
        """Forgets all jobs, as Slurm has."""
        for jobs in (self.submitted, self.held_by_users, self.cancelled, self.requeued):
            jobs.clear()
        self.wide = ""

    def _submit(self, *options: str, processors: int = 1) -> str:
        job = str(
            self.cluster.submit(
                *options,
                user=self.rng.choice(_USERS),
                processors=processors,
                minutes=self.rng.randint(60, 600),
                seconds=self.rng.randint(SHORTEST, LONGEST),
            )
        )
        self.submitted.add(job)
        self._last = time.time()  # noqa: TID251 - compared with the time of a file
        return job

    def wait_until_saved(self) -> None:
        """Waits until slurmctld has saved every submitted job."""
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
        """Held jobs that no user holds."""
        return held(self.seen(), self.held_by_users)

    def close(self) -> None:
        """Closes the partition, requeues running jobs, and releases what users held."""
        self.cluster.set_partition("down")
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
        """Pending jobs with a factor, once sprio lists every pending job."""
        waiting = {each.job for each in self.seen().values() if each.state == PENDING}
        numbers = {job.partition("_")[0] for job in waiting}
        shown: dict[int, int] = {}

        def all_shown() -> bool:
            shown.clear()
            shown.update(site_factors_of_tasks(self.cluster))
            listed = self.cluster.run("sprio", "-h", "-o", "%i").stdout.split()
            missing = numbers - {each.partition("_")[0] for each in listed}
            for job in missing:  # submitted while the clock was ahead
                self.cluster.run("scontrol", "update", f"jobid={job}", "starttime=now", check=False)
            return _slowly(not missing)

        self.cluster.wait_until(all_shown, 60, f"sprio lists {sorted(numbers)}")
        return [f"{job} ({factor})" for job, factor in sorted(shown.items()) if factor]

    def finish(self) -> None:
        """Lets all jobs run at the same time, and waits for the end of all."""
        more = ("state=up", f"maxcpuspernode={ALL}")
        self.cluster.run("scontrol", "update", "partition=batch", *more)
        self.cluster.wait_until(lambda: _slowly(self._all_ended()), 120, "all jobs done")

    def _all_ended(self) -> bool:
        """Whether no job is left; jobs that Slurm requeued may start at once."""
        self._free_failed_launches()
        here = self.cluster.run("squeue", "-h", "-o", "%i %r").stdout.splitlines()
        for job, reason in (line.split(maxsplit=1) for line in here):
            if reason == "BeginTime":
                self.cluster.run("scontrol", "update", f"jobid={job}", "starttime=now", check=False)
        return not here

    def _free_failed_launches(self) -> None:
        """Releases them and resumes the node that Slurm drained, as an administrator would."""
        if "drain" in self.cluster.run("sinfo", "-h", "-o", "%t %T").stdout:
            self.cluster.run("scontrol", "update", "nodename=n1", "state=resume", check=False)
        for each in self.seen().values():
            if each.state == PENDING and each.launch_failed:
                self.cluster.run("scontrol", "release", each.job, check=False)

    def harmed(self, bound: float, grace: float, *, reruns: bool) -> dict[str, list[str]]:
        """The harmed jobs by harm, after the end of all; see `starved` and `failed`."""
        seen = {job: each for job, each in self.seen().items() if job in self.submitted}
        plain = {job: each for job, each in seen.items() if job not in self.requeued}
        again = {job: each for job, each in seen.items() if job in self.requeued}
        return {
            "lost": lost(self.submitted, seen),
            "held": held(seen, self.held_by_users),
            "failed": [
                *failed(plain, self.cancelled, reruns=reruns),
                *failed(again, self.cancelled, reruns=True),
            ],
            "starved": [
                *starved(plain.values(), bound, grace, self._closed),
                *self._wide_starved(seen, bound + grace),
            ],
        }

    def _wide_starved(self, seen: dict[str, SeenJob], bound: float) -> Iterator[str]:
        """The wide job, if it waited longer than the bound and the time to drain the node."""
        wide = seen.get(self.wide)
        if wide is not None and wide.job not in self.requeued and wide.wait > bound + 2 * LONGEST:
            yield f"{wide.job} (wide, waited {wide.wait:.0f} s)"


def _slowly(done: bool) -> bool:
    """Waits before the next poll if `done` is false: each poll calls Slurm."""
    if not done:
        time.sleep(0.4)
    return done


def site_factors_of_tasks(cluster: PrivateSlurm) -> dict[int, int]:
    """Site factors by job; for an array whose records differ, one that is not 0."""
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
