"""When Slurm would start a job, by its own will-run test: `sbatch --test-only` submits nothing.

slurmctld counts running and pending jobs of the asked partition, but neither its state nor its time
limit where EnforcePartLimits is off: these are read from `sinfo`, so that no start is promised to a
job that would wait for ever.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    parse_all_processors,
    parse_duration,
    parse_time,
)
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SHOW_CONFIG, parse_cluster_name
from slurm_rl_plugin.batch_systems.slurm.cluster import SINFO
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, failure, not_understood
from slurm_rl_plugin.batch_systems.slurm.queue.reader import SQUEUE
from slurm_rl_plugin.batch_systems.slurm.submission import least_processors
from slurm_rl_plugin.domain.site import NEEDS, Allocation, JobRequest
from slurm_rl_plugin.errors import BatchSystemUnavailable, ConfigurationError, JobNotAccepted
from slurm_rl_plugin.units import MINUTE

TEST_ONLY = ("sbatch", "--test-only", "--chdir=/", "--output=/dev/null", "--wrap=true")
PARTITIONS = ("sinfo", "--noheader", "--all", "-o", "%P|%a|%l")
#: Options that may make up processors without a number of tasks.
_COUNTING = frozenset({"nodes", "cpus-per-gpu", "tres-per-task"})
#: What sinfo says of a partition that lets jobs run for ever.
NO_LIMIT = "infinite"
#: 26.05 puts a letter between the time and `using`.
_STARTS = re.compile(r"\bJob \d+ to start at (?P<time>\S+).*? using \d+ processors")
#: A release that does not know an option refuses it without the word error.
_REFUSED = re.compile(
    r"^(?:sbatch: (?:error|fatal):|allocation failure:|sbatch: (?=unrecognized option)) *"
    r"(?P<words>.+)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """What decides whether a job may start in a partition at all."""

    name: str  #: without the star of the default one
    is_default: bool  #: whether jobs that name none go there
    is_up: bool  #: whether jobs start there now
    longest: float  #: seconds that a job may ask for; inf for no limit


def will_run_command(request: JobRequest, account: str) -> list[str]:
    """The command of a will-run test; each value is one word, which no value can leave."""
    job, needs = request.job, dict(request.needs)
    words = {
        "partition": job.partition,
        "account": account or job.account,
        "qos": job.qos,
        "job-name": job.name,
        "time": "" if math.isnan(job.time_limit) else str(math.ceil(job.time_limit / MINUTE)),
        **{name: needs[name] for name in NEEDS if name in needs},
    }
    if not _makes_up(request.processors, needs):
        words["ntasks"] = str(_tasks(request.processors, needs.get("cpus-per-task", "")))
    given = [f"--{name}={value}" for name, value in words.items() if value]
    return [*TEST_ONLY, *given, *(["--exclusive"] if needs.get("exclusive") == "" else [])]


def _makes_up(processors: int, needs: Mapping[str, str]) -> bool:
    """Whether tasks, nodes or GPUs that are asked for make up so many processors by themselves."""
    if "ntasks" in needs or _tasks_by_gpus(needs):
        return True
    try:
        return bool(_COUNTING & needs.keys()) and least_processors(needs) >= processors
    except ConfigurationError:  # Slurm refuses it in its own words
        return True


def _tasks_by_gpus(needs: Mapping[str, str]) -> bool:
    """Whether Slurm makes up the tasks by GPUs; it refuses a number that differs."""
    return "ntasks-per-gpu" in needs or {"gpus", "gpus-per-task"} <= needs.keys()


def _tasks(processors: int, of_each: str) -> int:
    """Tasks that make up so many processors."""
    each = int(of_each) if of_each.isascii() and of_each.isdigit() else 1
    return math.ceil(processors / max(each, 1))


def parse_start(status: int, text: str) -> float:
    """The time of a will-run test."""
    found = _STARTS.search(text)
    if found is not None:
        return _seconds(found["time"])
    refused = [each["words"] for each in _REFUSED.finditer(text)]
    error = failure(TEST_ONLY[0], text)
    if isinstance(error, BatchSystemUnavailable):
        raise error
    if status and refused:
        raise JobNotAccepted(f"Slurm would not take the job: {refused[-1]}")
    raise not_understood(" ".join(TEST_ONLY[:2]), text.strip().partition("\n")[0])


def _seconds(text: str) -> float:
    """Seconds since the epoch, as SLURM_TIME_FORMAT=%s has them or in the form without it."""
    try:
        return float(text) if text.isdigit() else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise not_understood(" ".join(TEST_ONLY[:2]), text) from None


def parse_partitions(text: str) -> list[Partition]:
    """The partitions in `sinfo`'s answer to PARTITIONS, each once."""
    return list(dict.fromkeys(_partitions(text)))


def _partitions(text: str) -> Iterator[Partition]:
    for line in text.splitlines():
        try:
            name, state, limit = line.split("|")
            longest = math.inf if limit == NO_LIMIT else parse_duration(limit)
        except ValueError as error:
            raise not_understood("sinfo", line) from error
        yield Partition(
            name=name.removesuffix("*"),
            is_default=name.endswith("*"),
            is_up=state == "up",
            longest=longest,
        )


def check_partitions(request: JobRequest, partitions: list[Partition]) -> None:
    """Refuse a job that no partition it names would start."""
    asked = [name for name in request.job.partition.split(",") if name]
    mine = [each for each in partitions if (each.name in asked if asked else each.is_default)]
    if not mine:
        what = f"no partition {', '.join(asked)}" if asked else "no default partition"
        raise JobNotAccepted(f"Slurm has {what} here")
    up = [each for each in mine if each.is_up]
    if not up:
        raise JobNotAccepted(f"partition {mine[0].name} is not up")
    limit = request.job.time_limit
    if not math.isnan(limit) and all(limit > each.longest for each in up):
        raise JobNotAccepted(
            f"partition {up[0].name} gives {up[0].longest / MINUTE:.0f} minutes at most"
        )


#: What scontrol says of a reservation that a job uses, and of one that is not there.
_IN_USE, _NO_RESERVATION = "reservation is in use", "reservation is invalid"
#: Processors, start and end of each job; those of a pending one are Slurm's plan, or N/A.
SCHEDULE = (
    *SQUEUE,
    "--states=RUNNING,SUSPENDED,PENDING",
    "-O",
    "NumCPUs:|,StartTime:|,EndTime:",
)


def parse_schedule(text: str) -> list[Allocation]:
    """The allocations that squeue prints; a job without a planned start has none."""
    found = []
    for line in text.splitlines():
        try:
            processors, begin, end = line.split("|")
            each = Allocation(
                parse_time(begin, math.nan), parse_time(end, math.inf), int(processors)
            )
        except ValueError:
            raise not_understood(SCHEDULE[0], line) from None
        if each.begin < each.end < math.inf:
            found.append(each)
    return found


@dataclass(frozen=True, slots=True)
class SlurmOffers:
    """What brokers are told of a site with Slurm; see `OfferingSite`.

    Slurm tests as the user who asks, so accounts and QOS are checked by the associations of that
    user. Every will-run test is made under `account`; "" takes the job's own.
    """

    commands: CommandRunner
    account: str

    def expected_start(self, request: JobRequest) -> float | None:
        """Slurm's own estimate, in seconds since the epoch; nothing is submitted."""
        check_partitions(request, parse_partitions(self.commands.read(PARTITIONS)))
        answer = self.commands.call(will_run_command(request, self.account))
        return parse_start(answer.status, answer.errors + answer.output)

    def reserve(self, name: str, request: JobRequest, start: float, idle: float) -> None:
        """An advance reservation for the account, long enough for a job that comes in time.

        slurmctld refuses one that begins in the second in which a running job ends.
        """
        job, spare = request.job, math.ceil(idle / MINUTE)
        words = {
            "reservationname": name,
            "accounts": job.account,
            "partition": job.partition,
            "starttime": f"uts{math.ceil(start) + 1}",
            "duration": str(math.ceil(job.time_limit / MINUTE) + spare + 1),
            "tres": f"cpu={request.processors}",
            "flags": f"PURGE_COMP={spare // 60:02}:{spare % 60:02}:00",
        }
        given = [f"{key}={value}" for key, value in words.items() if value]
        answer = self.commands.call(("scontrol", "create", "reservation", *given))
        if answer.status:
            said = (answer.errors or answer.output).strip().splitlines()
            raise JobNotAccepted(said[0] if said else "scontrol gives no reason")

    def release(self, name: str) -> bool:
        """Delete a reservation; False where a pending or running job uses it."""
        answer = self.commands.call(("scontrol", "delete", f"reservationname={name}"))
        said = answer.errors + answer.output
        if answer.status == 0 or _NO_RESERVATION in said:
            return True
        if _IN_USE in said:
            return False
        raise failure("scontrol", said)

    def schedule(self) -> list[Allocation]:
        """Jobs that run until their time limits, and pending ones that backfilling has planned."""
        return parse_schedule(self.commands.read(SCHEDULE))

    def name(self) -> str:
        """ClusterName of slurm.conf."""
        return parse_cluster_name(self.commands.read(SHOW_CONFIG))

    def processors(self) -> int:
        """All processors by `sinfo`, those of nodes that are down as well."""
        return parse_all_processors(self.commands.read(SINFO))
