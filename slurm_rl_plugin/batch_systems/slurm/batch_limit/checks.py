"""What has to hold before a limit on batch jobs can work in Slurm, each with its mend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slurm_rl_plugin.batch_systems.kind import AdapterParts
from slurm_rl_plugin.batch_systems.port import FAIL, PASS, WARN, Check
from slurm_rl_plugin.batch_systems.slurm.answers.fields import QueueRow, parse_capacity
from slurm_rl_plugin.batch_systems.slurm.answers.settings import (
    SHOW_CONFIG,
    parse_cluster_name,
    parse_settings,
)
from slurm_rl_plugin.batch_systems.slurm.batch_limit.licenses import LICENSES, LicenseLimit
from slurm_rl_plugin.batch_systems.slurm.batch_limit.limit import (
    LimitCarrier,
    carrier_as_configured,
    names_of,
)
from slurm_rl_plugin.batch_systems.slurm.batch_limit.qos import QOS, TRES, QosLimit
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue.job_tables import some_jobs
from slurm_rl_plugin.batch_systems.slurm.queue.row_numbers import describe
from slurm_rl_plugin.domain.resources import CPUS
from slurm_rl_plugin.errors import BatchSystemError, ChangeRejected

ASSOCIATIONS = ("sacctmgr", "--noheader", "--parsable2", "show", "assoc", "format=Cluster,QOS")
LICENSES_OF_JOBS = ("squeue", "--noheader", "--all", "--local", "-r", "-O", "JobID:|,Licenses:")


def limit_checks(
    given: AdapterParts,
    commands: CommandRunner,
    rows: Sequence[QueueRow],
    sinfo: Sequence[str],
    *,
    writes: bool,
) -> Iterator[Check]:
    """Every check of the configured mechanism.

    Args:
        given: what is to carry the limit, and which jobs are batch jobs.
        commands: run Slurm's commands.
        rows: of the jobs that wait or run.
        sinfo: words of the command that tells the capacity.
        writes: the right may be tried by a write that changes nothing.

    Raises:
        BatchSystemUnavailable: no answer in time.
        BatchSystemError: an answer that cannot be understood.
    """
    limit = given.limit
    batch = [row for row in rows if not given.interactive(describe(row))]
    quick = [row for row in rows if given.interactive(describe(row))]
    if limit.mechanism == QOS:
        yield _enforced(commands)
        yield _qos(QosLimit(commands, limit.qos, (CPUS, *limit.resources)), given)
        yield _only_this_cluster(commands, limit.qos)
        having = {row.job_id for row in rows if row.qos.lower() == limit.qos.lower()}
        fix = f"make {limit.qos} their DefaultQOS, or set it in a job_submit.lua of the site"
        yield _jobs(batch, quick, having, f"QOS {limit.qos}", fix)
    elif limit.mechanism == LICENSES:
        yield _licenses(LicenseLimit(commands, *names_of(limit, LICENSES)), commands, sinfo)
        fix = f"let a job_submit.lua of the site add --licenses={limit.license}:<processors>"
        having = _with_license(commands.read(LICENSES_OF_JOBS), limit.license)
        yield _jobs(batch, quick, having, f"licence {limit.license}", fix)
    else:
        words = f'"{limit.mechanism}" is not of Slurm: set [reserve] mechanism = "qos"'
        yield Check(FAIL, "reserve", words)
        return
    yield _right(carrier_as_configured(commands, limit), writes=writes)


def _enforced(commands: CommandRunner) -> Check:
    unlimited = parse_settings(commands.read(SHOW_CONFIG)).unlimited
    if unlimited is not None:
        return Check(FAIL, "reserve limits", unlimited)
    return Check(PASS, "reserve limits", "slurmctld enforces limits of a QOS")


def _qos(carrier: QosLimit, given: AdapterParts) -> Check:
    (name,) = carrier.names
    try:
        own = carrier.stored()
        carrier.live()
    except ChangeRejected as error:
        return Check(FAIL, "reserve QOS", str(error))
    limited = {
        TRES[each]: amount
        for each, amount in zip(carrier.resources, own, strict=True)
        if amount is not None
    }
    if limited and (given.limits_file is None or not given.limits_file.exists()):
        said = ",".join(f"{tres}={amount}" for tres, amount in limited.items())
        what = f"{name} has GrpTRES={said} of its own: ours is never higher, and it is given back"
        return Check(WARN, "reserve QOS", what)
    return Check(PASS, "reserve QOS", f"{name} is there")


def _only_this_cluster(commands: CommandRunner, name: str) -> Check:
    """The clusters of a database share their QOS, and our limit would be theirs too."""
    here = parse_cluster_name(commands.read(SHOW_CONFIG))
    others = set()
    for line in commands.read(ASSOCIATIONS).splitlines():
        cluster, _, qos = line.partition("|")
        if cluster != here and name.lower() in qos.lower().split(","):
            others.add(cluster)
    if others:
        what = f"{name} is a QOS of {', '.join(sorted(others))} too: give each cluster its own"
        return Check(FAIL, "reserve clusters", what)
    return Check(PASS, "reserve clusters", f"no other cluster of the database uses {name}")


def _jobs(
    batch: Sequence[QueueRow],
    quick: Sequence[QueueRow],
    having: set[int],
    what: str,
    fix: str,
) -> Check:
    """Whether the limit meets the batch jobs, all of them, and nobody else."""
    without = [row.job_id for row in batch if row.job_id not in having]
    wrong = [row.job_id for row in quick if row.job_id in having]
    if wrong:
        words = (
            f"interactive jobs have {what}, so the limit counts and stops them: {some_jobs(wrong)}"
        )
        return Check(FAIL, "reserve jobs", f"{words}; give them another")
    if batch and len(without) == len(batch):
        return Check(FAIL, "reserve jobs", f"no batch job has {what}: {fix}")
    if without:
        words = f"{len(without)} of {len(batch)} batch jobs have not {what}: {some_jobs(without)}"
        return Check(WARN, "reserve jobs", f"{words}; {fix}")
    if not batch:
        return Check(WARN, "reserve jobs", f"no batch job is there to see whether it has {what}")
    return Check(PASS, "reserve jobs", f"all {len(batch)} batch jobs have {what}")


def _licenses(carrier: LicenseLimit, commands: CommandRunner, sinfo: Sequence[str]) -> Check:
    try:
        total = carrier.total()
        carrier.live()
    except ChangeRejected as error:
        return Check(FAIL, "reserve licences", str(error))
    capacity = parse_capacity(commands.read(sinfo))
    if total != capacity:
        what = f"{total} licences for {capacity} usable processors: make them as many"
        return Check(WARN, "reserve licences", what)
    return Check(PASS, "reserve licences", f"{total}, as many as processors")


def _with_license(text: str, name: str) -> set[int]:
    having = set()
    for line in text.splitlines():
        job, _, licenses = line.partition("|")
        if job.strip().isdecimal() and any(
            each.strip().partition(":")[0] == name for each in licenses.split(",")
        ):
            having.add(int(job))
    return having


def _right(carrier: LimitCarrier, *, writes: bool) -> Check:
    if not writes:
        return Check(WARN, "reserve right", "not tried: a daemon runs")
    try:
        if isinstance(carrier, LicenseLimit):
            carrier.try_right()
        else:
            carrier.write(carrier.stored())
    except BatchSystemError as error:
        return Check(FAIL, "reserve right", str(error))
    return Check(PASS, "reserve right", "this user may limit batch jobs: nothing was changed")
