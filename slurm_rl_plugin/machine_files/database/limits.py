"""Limits of a QOS or an association: which of them hold here, and a sentence on each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from slurm_rl_plugin.domain.machine import ResourceLimit
from slurm_rl_plugin.machine_files.database.entries import QOS, USER, DatabaseEntry
from slurm_rl_plugin.machine_files.resource_names import limits_of
from slurm_rl_plugin.machine_files.values import NOTHING, UNLIMITED, Value

GROUP, EACH_USER, JOB = "group", "user", "job"
#: What a key limits, and the resource that its plain number counts; "" for RESOURCE=NUMBER,...
_LIMITS: Mapping[str, tuple[str, str]] = {
    "grptres": (GROUP, ""),
    "grpjobs": (GROUP, "jobs"),
    "grpcpus": (GROUP, "cpus"),
    "grpmemory": (GROUP, "memory"),
    "grpnodes": (GROUP, "nodes"),
    "maxtresperuser": (EACH_USER, ""),
    "maxtrespu": (EACH_USER, ""),
    "maxjobsperuser": (EACH_USER, "jobs"),
    "maxjobspu": (EACH_USER, "jobs"),
    "maxcpusperuser": (EACH_USER, "cpus"),
    "maxcpuspu": (EACH_USER, "cpus"),
    "maxnodesperuser": (EACH_USER, "nodes"),
    "maxnodespu": (EACH_USER, "nodes"),
    "maxtres": (JOB, ""),
    "maxtresperjob": (JOB, ""),
    "maxtrespj": (JOB, ""),
    "maxcpus": (JOB, "cpus"),
    "maxcpusperjob": (JOB, "cpus"),
    "maxnodes": (JOB, "nodes"),
    "maxnodesperjob": (JOB, "nodes"),
}
_MAX_JOBS = "maxjobs"
_LONGEST = ("maxwall", "maxwalldurationperjob", "maxwalldur")
#: Who may send what, how many may wait, and what people read: of no weight for starts.
_NO_EFFECT = frozenset(
    {
        *("name", "names", "description", "descr", "organization", "org", "account", "accounts"),
        *("cluster", "clusters", "defaultaccount", "defacct", "defaultqos", "defqos", "qos"),
        *("qoslevel", "adminlevel", "admin", "coordinator", "coordinators", "user", "users"),
        *("parent", "parentname", "parname", "partition", "partitions", "fairshare", "share"),
        *("shares", "rawshares", "classification", "rpc", "controlhost", "controlport", "id"),
        *("maxsubmit", "maxsubmitjobs", "maxsubmitjobsperuser", "maxsubmitjobspu", "maxsubmitpu"),
        *("maxsubmitjobsperaccount", "maxsubmitjobspa", "maxsubmitpa", "grpsubmit", "comment"),
        *("grpsubmitjobs", "mintres", "mintresperjob", "mintrespj", "mincpus", "mincpusperjob"),
        *("lineage", "gracetime", "defaultwckey", "wckeys", "parentid", "withassoc"),
    }
)
_WHY = {
    "flags": "flags of a QOS have no effect",
    "grpjobsaccrue": "every waiting job ages",
    "grptresmins": "used minutes are not limited",
    "grptresrunmins": "minutes of running jobs are not limited",
    "grpcpumins": "used minutes are not limited",
    "grpcpurunmins": "minutes of running jobs are not limited",
    "grpwall": "used hours are not limited",
    "limitfactor": "limits are as they stand",
    "maxjobsaccrue": "every waiting job ages",
    "maxjobsperaccount": "accounts within a QOS have no limit of their own",
    "maxjobspa": "accounts within a QOS have no limit of their own",
    "maxtresmins": "minutes of a job are not limited",
    "maxtresminsperjob": "minutes of a job are not limited",
    "maxtresperaccount": "accounts within a QOS have no limit of their own",
    "maxtrespa": "accounts within a QOS have no limit of their own",
    "maxtrespernode": "a job may take all of a node",
    "maxtrespn": "a job may take all of a node",
    "minpriothresh": "every waiting job is looked at",
    "minpriothreshold": "every waiting job is looked at",
    "preempt": "no job is preempted",
    "preemptexempttime": "no job is preempted",
    "preemptmode": "no job is preempted",
    "usagethreshold": "usage bars no job",
    "usagethres": "usage bars no job",
}
#: Values that say what holds without them; `cluster` is the mode of preemption of all.
_NEUTRAL = NOTHING | {"-1", "0", "1.000000", "1", "cluster", "denyonlimit"}
#: All names of keys; of a dump it tells them from values that hold a colon.
KNOWN_KEYS = frozenset(
    {*_LIMITS, _MAX_JOBS, *_LONGEST, *_NO_EFFECT, *_WHY, "priority", "usagefactor"}
)


def limit_of(entry: DatabaseEntry) -> ResourceLimit:
    """What an entry limits.

    Raises:
        ConfigurationError: a value is not understood.
    """
    parts: dict[str, dict[str, float]] = {GROUP: {}, EACH_USER: {}, JOB: {}}
    for key, value in entry.keys.items():
        place, resource = _limited(key, entry.kind)
        if place and not _unset(value):
            own = {resource: value.bound()} if resource else limits_of(value)
            parts[place] |= {name: most for name, most in own.items() if most < math.inf}
    return ResourceLimit(
        group=parts[GROUP],
        user=parts[EACH_USER],
        job=parts[JOB],
        longest=_longest(entry.keys),
        priority=_priority(entry),
        usage_factor=_usage_factor(entry),
    )


def _limited(key: str, kind: str) -> tuple[str, str]:
    if key == _MAX_JOBS:
        # of an account or a QOS it holds for each of its users; of a user for all of its jobs
        return (GROUP if kind == USER else EACH_USER), "jobs"
    return _LIMITS.get(key, ("", ""))


def _longest(keys: Mapping[str, Value]) -> float:
    said = [value for key, value in keys.items() if key in _LONGEST]
    return said[-1].seconds() if said and not _unset(said[-1]) else math.inf


def _priority(entry: DatabaseEntry) -> float:
    value = entry.keys.get("priority")
    return float(value.number()) if entry.kind == QOS and value and not _unset(value) else 0.0


def _usage_factor(entry: DatabaseEntry) -> float:
    value = entry.keys.get("usagefactor")
    if value is None or entry.kind != QOS or value.text.lower() in NOTHING | UNLIMITED:
        return 1.0
    try:
        factor = float(value.text)
    except ValueError:
        factor = math.nan
    if not 0.0 <= factor < math.inf:
        raise value.fault("this is no factor; write a number, 0 or more")
    return factor


def association_priority(entry: DatabaseEntry) -> float | None:
    """Priority of an account or a user; None where nothing is set.

    Raises:
        ConfigurationError: it is no number.
    """
    value = entry.keys.get("priority")
    return None if value is None or _unset(value) else float(value.number())


def _unset(value: Value) -> bool:
    return value.text.lower() in NOTHING | {"-1"}


def not_modelled(entry: DatabaseEntry) -> Iterator[str]:
    """A sentence on each limit that has no effect here."""
    for key, value in entry.keys.items():
        if value.text.lower() in _NEUTRAL:
            continue
        what = f"{value.place}: {entry.kind} {entry.name}: {value.key}={value.text}"
        if key in _WHY:
            yield f"{what}: {_WHY[key]}."
        elif key not in KNOWN_KEYS:
            yield f"{what}: not known here, so it has no effect."
