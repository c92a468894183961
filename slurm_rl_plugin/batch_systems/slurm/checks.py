"""Checks of `slurm-rl check` for Slurm alone: clock, accounting, shares, nodes and batch limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from slurm_rl_plugin.batch_systems.port import FAIL, PASS, WARN, AdapterParts, Check
from slurm_rl_plugin.batch_systems.slurm.answers.fields import SINFO, QueueRow, parse_capacity
from slurm_rl_plugin.batch_systems.slurm.answers.machine import SSHARE, parse_shares, read_nodes
from slurm_rl_plugin.batch_systems.slurm.answers.settings import (
    SDIAG,
    SHOW_CONFIG,
    parse_settings,
)
from slurm_rl_plugin.batch_systems.slurm.batch_limit import (
    TRES,
    LicenseLimit,
    LimitCarrier,
    carrier_as_configured,
)
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue.job_tables import describe, some
from slurm_rl_plugin.batch_systems.slurm.queue.reader import Squeue
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.nodes import resources_now
from slurm_rl_plugin.domain.resources import LICENCE_PREFIX
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError

#: A query of slurmdbd that costs it nothing.
SACCT = ("sacct", "--noheader", "-X", "-S", "now-1minutes", "-o", "JobIDRaw")
#: Seconds between the clocks: slurmctld prints whole seconds; munge refuses from 300 s on.
_NEAR, _FAR = 2.0, 30.0
_ANSWERED = re.compile(r"^sdiag output at .*\((?P<time>\d+)\)", re.MULTILINE)


#: PASS, WARN or FAIL, and what a check found with the fix.
Finding = tuple[str, str]


def _found(name: str, find: Callable[[], Finding], failed: str = FAIL, rest: str = "") -> Check:
    """Make a check of a finding; an error of the batch system is one with the result `failed`."""
    try:
        result, what = find()
    except BatchSystemError as error:
        result, what = failed, f"{error}{rest}"
    return Check(result, name, what)


def slurm_checks(
    site: AdapterParts, commands: CommandRunner, *, wants_runs: bool
) -> Iterator[Check]:
    """Every check of a site with Slurm; with `wants_runs` accounting must answer."""
    yield _found("clock", lambda: _clock(commands, site.clock))
    # without accounting a model that learns from runs begins without any
    rest = "; the model begins without past runs" if wants_runs else "; only reports need it"
    failed = FAIL if wants_runs else WARN
    yield _found("accounting", lambda: _accounting(commands), failed, rest)
    yield _found("shares", lambda: _shares(commands, site.shares))
    yield resource_check(commands)


def _clock(commands: CommandRunner, clock: Callable[[], float]) -> Finding:
    before = clock()
    found = _ANSWERED.search(commands.read(SDIAG))
    if found is None:
        return WARN, "not compared: sdiag does not say when slurmctld answered"
    answered, after = float(found["time"]), clock()
    apart = max(before - 1.0 - answered, answered - after, 0.0)  # whole seconds, rounded down
    what = f"slurmctld's is {apart:.0f} s off this host's"
    if apart > _FAR:
        return FAIL, f"{what}: waits are wrong; set both by NTP"
    if apart > _NEAR:
        return WARN, f"{what}: set both by NTP"
    return PASS, "slurmctld's and this host's agree"


def _accounting(commands: CommandRunner) -> Finding:
    commands.read(SACCT)
    return PASS, "sacct answers"


def _shares(commands: CommandRunner, configured: Mapping[str, float] | None) -> Finding:
    tree = parse_shares(commands.read(SSHARE))
    if configured is None:
        if any(tree.shares.values()):
            return PASS, f"Slurm's own, of {len(tree.shares)} accounts"
        return WARN, "sshare shows none: set them with sacctmgr, or in [shares]"
    if unknown := sorted(set(configured) - set(tree.shares)):
        return FAIL, (
            f"Slurm has no account with users called {some(unknown)}: write the names as in "
            "`sacctmgr show assoc`, or remove them from [shares]"
        )
    if missing := sorted(set(tree.shares) - set(configured)):
        return WARN, f"not in [shares], so with share 0: {some(missing)}"
    return PASS, f"all {len(configured)} accounts are Slurm's too"


ASSOCIATIONS = ("sacctmgr", "--noheader", "--parsable2", "show", "assoc", "format=Cluster,QOS")


def limit_checks(
    given: AdapterParts,
    commands: CommandRunner,
    rows: Sequence[QueueRow],
    *,
    writes: bool,
) -> Iterator[Check]:
    """Every check of the configured mechanism."""
    limit = given.limit
    try:
        carrier = carrier_as_configured(commands, limit)
    except ConfigurationError as error:
        yield Check(FAIL, "reserve", str(error))
        return
    if isinstance(carrier, LicenseLimit):
        licenses = carrier
        yield _found("reserve licences", lambda: _licenses(licenses, commands))
        what = f"licence {limit.license}"
        fix = f"let a job_submit.lua of the site add --licenses={limit.license}:<processors>"
        name = LICENCE_PREFIX + limit.license
        listed = Squeue(commands, reads_requests=True).waiting_and_running()
        having = {row.job_id for row in listed if row.asked and name in dict(row.asked.amounts)}
    else:
        unlimited = parse_settings(commands.read(SHOW_CONFIG)).unlimited
        words = "slurmctld enforces limits of a QOS"
        yield Check(FAIL if unlimited else PASS, "reserve limits", unlimited or words)
        yield _found("reserve QOS", lambda: _qos(carrier, given))
        yield _only_this_cluster(commands, limit.qos)
        what = f"QOS {limit.qos}"
        fix = f"make {limit.qos} their DefaultQOS, or set it in a job_submit.lua of the site"
        having = {row.job_id for row in rows if row.qos.lower() == limit.qos.lower()}
    yield _jobs(rows, given.classifier, having, what, fix)
    yield _found("reserve right", lambda: _right(carrier, writes=writes))


def _qos(carrier: LimitCarrier, given: AdapterParts) -> Finding:
    (name,) = carrier.names
    own = carrier.stored()
    carrier.live()
    limited = {
        TRES[each]: amount
        for each, amount in zip(carrier.resources, own, strict=True)
        if amount is not None
    }
    if limited and (given.limits_file is None or not given.limits_file.exists()):
        said = ",".join(f"{tres}={amount}" for tres, amount in limited.items())
        what = f"{name} has GrpTRES={said} already: our limit is never higher, and it is restored"
        return WARN, what
    return PASS, f"{name} is there"


def _only_this_cluster(commands: CommandRunner, name: str) -> Check:
    """Check that no other cluster uses the QOS: clusters of a database share it and its limit."""
    here = parse_settings(commands.read(SHOW_CONFIG)).cluster
    others = set()
    for line in commands.read(ASSOCIATIONS).splitlines():
        cluster, _, qos = line.partition("|")
        if cluster != here and name.lower() in qos.lower().split(","):
            others.add(cluster)
    if others:
        what = f"{name} is a QOS of {', '.join(sorted(others))} too: make one for each cluster"
        return Check(FAIL, "reserve clusters", what)
    return Check(PASS, "reserve clusters", f"no other cluster of the database uses {name}")


def _jobs(
    rows: Sequence[QueueRow], classifier: JobClassifier, having: set[int], what: str, fix: str
) -> Check:
    """Whether the limit applies to all batch jobs and to no other job."""
    quick = {row.job_id for row in rows if classifier.is_interactive(describe(row))}
    batch = [row.job_id for row in rows if row.job_id not in quick]
    without = [job for job in batch if job not in having]
    wrong = [row.job_id for row in rows if row.job_id in quick and row.job_id in having]
    if wrong:
        words = f"interactive jobs have {what}, so the limit applies to them: job {some(wrong)}"
        return Check(FAIL, "reserve jobs", f"{words}; give them another")
    if batch and len(without) == len(batch):
        return Check(FAIL, "reserve jobs", f"no batch job has {what}: {fix}")
    if without:
        words = f"{len(without)} of {len(batch)} batch jobs lack {what}: job {some(without)}"
        return Check(WARN, "reserve jobs", f"{words}; {fix}")
    if not batch:
        return Check(WARN, "reserve jobs", f"there is no batch job to see whether it has {what}")
    return Check(PASS, "reserve jobs", f"all {len(batch)} batch jobs have {what}")


def _licenses(carrier: LicenseLimit, commands: CommandRunner) -> Finding:
    total = carrier.total()
    carrier.live()
    capacity = parse_capacity(commands.read(SINFO)).usable
    if total != capacity:
        return WARN, f"{total} licences for {capacity} usable processors: set an equal number"
    return PASS, f"{total}, as many as processors"


def _right(carrier: LimitCarrier, *, writes: bool) -> Finding:
    if not writes:
        return WARN, "not tried: a daemon runs"
    if isinstance(carrier, LicenseLimit):
        carrier.try_right()
    else:
        carrier.write(carrier.stored())
    return PASS, "this user may limit batch jobs: nothing was changed"


_GPU_TYPE = "gres/gpu:"


def resource_check(commands: CommandRunner) -> Check:
    """Report resources of nodes; warns if they cannot be read or types of GPUs stay unknown."""
    rest = "; until then processors alone count"
    return _found("resources", lambda: _resources(commands), WARN, rest)


def _resources(commands: CommandRunner) -> Finding:
    settings = parse_settings(commands.read(SHOW_CONFIG))
    if not (settings.counts_memory or settings.counts_gres):
        return PASS, "slurm.conf counts processors alone"
    nodes = read_nodes(commands.read, counts_memory=settings.counts_memory)
    machine = resources_now(nodes)
    if machine is None:
        return PASS, "usable nodes have processors alone"
    types = [name for name in machine.names if name.startswith(_GPU_TYPE)]
    unknown = [name for name in types if name not in settings.tracked]
    if unknown and len(types) > 1:
        return WARN, (
            f"a job that names no type of GPU counts for no type of {', '.join(unknown)}: add "
            "these to AccountingStorageTRES in slurm.conf"
        )
    amounts = zip(machine.names, machine.capacity.tolist(), strict=True)
    words = ", ".join(f"{name} {amount:g}" for name, amount in amounts if amount)
    return PASS, f"of usable nodes (memory in MiB): {words}"
