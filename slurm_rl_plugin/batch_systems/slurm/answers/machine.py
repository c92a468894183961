"""Nodes, partitions, limits, shares and names as a running Slurm prints them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slurm_rl_plugin.batch_systems.port import SiteNames
from slurm_rl_plugin.batch_systems.slurm.answers.fields import SEPARATOR, parse_count
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SHOW_CONFIG, parse_config
from slurm_rl_plugin.batch_systems.slurm.process import not_understood
from slurm_rl_plugin.domain.billing import Billing
from slurm_rl_plugin.domain.jobs import RunningJobs
from slurm_rl_plugin.domain.nodes import NodeNow
from slurm_rl_plugin.domain.resources import CPUS, LICENCE_PREFIX, MEMORY
from slurm_rl_plugin.domain.share_tree import ShareTree
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError
from slurm_rl_plugin.machine_files.database import DatabaseEntry, database_of, read_tables
from slurm_rl_plugin.machine_files.nodes import billing_weights, gres_of
from slurm_rl_plugin.machine_files.reader import DescribedCluster
from slurm_rl_plugin.machine_files.scheduling import weights_of_priorities
from slurm_rl_plugin.machine_files.statements import (
    NOTHING,
    ConfRecord,
    Keys,
    Statements,
    Value,
    compress,
)
from slurm_rl_plugin.units import MINUTE, FloatArray

Read = Callable[[Sequence[str]], str]

SHOW_NODES = ("scontrol", "--all", "--oneliner", "show", "nodes")
SHOW_PARTITIONS = ("scontrol", "--all", "--oneliner", "show", "partitions")
_TABLE = ("sacctmgr", "--parsable2", "--readonly", "show")
_LIMITS = "GrpJobs,GrpTRES,GrpWall,GrpTRESMins,GrpTRESRunMins,MaxTRES,MaxTRESPerNode,MaxTRESMins"
SHOW_QOS = (
    *_TABLE,
    "qos",
    f"format=Name,Priority,Preempt,Flags,UsageFactor,{_LIMITS},MaxWall,"
    "MaxTRESPU,MaxJobsPU,MaxTRESPA,MaxJobsPA",
)
SHOW_ASSOCIATIONS = (
    *_TABLE,
    "associations",
    f"format=Cluster,Account,User,Partition,ParentName,Share,Priority,{_LIMITS},MaxJobs,MaxWall",
)
SHOW_USERS = (*_TABLE, "users", "format=User,DefaultAccount")
#: Fields of a node in scontrol that are configuration -> their keys in slurm.conf.
_OF_NODE = {"cputot": "cpus", "availablefeatures": "features"} | {
    key: key
    for key in (
        *("boards", "sockets", "corespersocket", "threadspercore", "corespeccount", "gres"),
        *("cpuspeclist", "realmemory", "memspeclimit", "weight", "restrictedcorespergpu"),
    )
}
#: Fields of a partition that follow from its nodes.
_COUNTED = frozenset({"totalcpus", "totalnodes", "tres", "nodesets", "nodeindices"})
_FIELD = re.compile(r"(?:^|(?<=\s))([A-Za-z_]+)=")
_UNSET = Value("", "", "")
_AWAY = re.compile(r"DOWN|DRAIN|FAIL", re.IGNORECASE)


def read_running_cluster(read: Read) -> DescribedCluster:
    """Ask a running Slurm for its machine; down and drained nodes count, FUTURE ones do not."""
    settings = parse_config(read(SHOW_CONFIG))
    said = parse_machine(settings, read(SHOW_NODES), read(SHOW_PARTITIONS))
    return DescribedCluster(said=said, entries=list(_entries(read, settings)))


def read_billing(read: Read) -> Billing:
    """Ask a running Slurm what it bills."""
    settings = parse_config(read(SHOW_CONFIG))
    shown = _records(read(SHOW_PARTITIONS), "partitionname", SHOW_PARTITIONS)
    weights = {each.name.text: billing_weights(each) for each in map(_partition, shown)}
    qos = database_of(_entries(read, settings, (SHOW_QOS,))).qos
    return Billing(
        weights=weights,
        flags=weights_of_priorities(settings).flags,
        factors={name: each.usage_factor for name, each in qos.items()},
    )


def parse_machine(settings: Keys, nodes: str, partitions: str) -> Statements:
    """What scontrol shows, as slurm.conf would say it."""
    shown = list(_records(nodes, "nodename", SHOW_NODES))
    served = [_partition(each) for each in _records(partitions, "partitionname", SHOW_PARTITIONS)]
    away = [fields["nodename"] for fields in shown if _AWAY.search(fields["state"])]
    notes = [f"{compress(away)}: down or drained now, but counted."] if away else []
    if "NO_NORMAL_ALL" in settings.text("priorityflags").upper():
        notes.append(
            "PriorityFlags=NO_NORMAL_ALL: up to Slurm 24.11 scontrol shows this for any of the "
            "NO_NORMAL_* flags; see slurm.conf for the flag that is set."
        )
    lists = (each.keys.get("nodes", _UNSET) for each in served)
    named = {name for each in lists if each.text.lower() not in NOTHING for name in each.names()}
    hidden = sorted(named - {fields["nodename"] for fields in shown})
    place = " ".join(SHOW_PARTITIONS)
    future = Keys(state=Value(place, "State", "FUTURE"))
    return Statements(
        settings=settings,
        nodes=[_node(fields) for fields in shown if "FUTURE" not in fields["state"].upper()],
        partitions=served,
        # a partition names these nodes, but scontrol does not show them
        down=[ConfRecord(Value(place, "Nodes", name), future) for name in hidden],
        notes=notes,
    )


def _records(text: str, key: str, command: Sequence[str]) -> Iterator[dict[str, str]]:
    """Fields of each line by lower-case name; the first of equal names, since free text is last."""
    for line in text.splitlines():
        if not line.strip():
            continue
        begins = list(_FIELD.finditer(line))
        ends = [*(found.start() for found in begins), len(line)][1:]
        fields: dict[str, str] = {}
        for found, end in zip(begins, ends, strict=True):
            fields.setdefault(found[1].lower(), line[found.end() : end].strip())
        if key not in fields or "state" not in fields:
            raise not_understood(" ".join(command), line)
        yield fields


def _node(fields: Mapping[str, str]) -> ConfRecord:
    place = " ".join(SHOW_NODES)
    keys = {
        key: Value(place, key, fields[shown])
        for shown, key in _OF_NODE.items()
        if fields.get(shown, "").lower() not in NOTHING
    }
    if "CLOUD" in fields["state"].upper():
        keys["state"] = Value(place, "State", "CLOUD")
    return ConfRecord(Value(place, "NodeName", fields["nodename"]), Keys(keys))


def _partition(fields: Mapping[str, str]) -> ConfRecord:
    name = fields["partitionname"]
    place = f"scontrol show partition {name}"
    keys = {
        key: Value(place, key, text)
        for key, text in fields.items()
        if key not in _COUNTED and key != "partitionname"
    }
    return ConfRecord(Value(place, "PartitionName", name), Keys(keys))


def _entries(
    read: Read,
    settings: Keys,
    commands: Sequence[tuple[str, ...]] = (SHOW_QOS, SHOW_ASSOCIATIONS, SHOW_USERS),
) -> list[DatabaseEntry]:
    if not settings.text("accountingstoragetype").endswith("slurmdbd"):
        return []
    cluster = settings.text("clustername")
    found: list[DatabaseEntry] = []
    for command in commands:
        place = " ".join(command[:1] + command[3:5])
        found += read_tables(place, read(command).splitlines(), cluster=cluster)
    return found


_FIELDS = (
    *("NodeList", "PartitionName", "CPUsState", "Memory", "AllocMem", "Gres", "GresUsed"),
    "Features",
)
_FORM = ",".join(f"{field}:{SEPARATOR}" for field in (*_FIELDS, "StateLong"))
SHOW_NODES_NOW = ("sinfo", "--noheader", "--all", "--Node", "-O", _FORM)
#: States in which a node takes no job, as `sinfo` counts processors.
_NOT_SERVING = re.compile(r"down|drain|fail|error|future|inval", re.IGNORECASE)


def read_nodes(read: Read, *, counts_memory: bool = True) -> list[NodeNow]:
    """What nodes have and what of it is free now; see `parse_nodes`."""
    return parse_nodes(read(SHOW_NODES_NOW), counts_memory=counts_memory)


def parse_nodes(text: str, *, counts_memory: bool) -> list[NodeNow]:
    """Read the answer of SHOW_NODES_NOW, in which a node has a line for each of its partitions.

    Jobs share memory that Slurm does not count.
    """
    lines: dict[str, list[str]] = {}
    partitions: dict[str, set[str]] = {}
    for line in text.splitlines():
        name, partition, *rest = line.split(SEPARATOR)[:-1] or [""]
        if len(rest) != len(_FIELDS) - 1:
            raise not_understood("sinfo", line)
        lines[name] = rest
        partitions.setdefault(name, set()).add(partition)
    return [
        _node_now(name, frozenset(partitions[name]), rest, counts_memory=counts_memory)
        for name, rest in lines.items()
    ]


def _node_now(
    name: str, partitions: frozenset[str], fields: list[str], *, counts_memory: bool
) -> NodeNow:
    cpus, memory, taken_memory, gres, taken_gres, features, state = fields
    try:
        taken, idle, _other, whole = (float(parse_count(part)) for part in cpus.split("/"))
        has = {CPUS: whole, **gres_of(Value(f"sinfo: node {name}", "Gres", gres))}
        in_use = {CPUS: taken, **gres_of(Value(f"sinfo: node {name}", "GresUsed", taken_gres))}
        if counts_memory:
            has[MEMORY] = float(memory)
            in_use[MEMORY] = float(taken_memory)
    except (ValueError, ConfigurationError) as error:
        raise not_understood("sinfo", SEPARATOR.join([name, *fields])) from error
    serves = _NOT_SERVING.match(state) is None
    if serves and not idle:  # without a free CPU no job gets the memory and GPUs left there
        in_use = {resource: max(has[resource], in_use.get(resource, 0.0)) for resource in has}
    return NodeNow(
        name=name,
        partitions=partitions,
        serves=serves,
        has={resource: amount for resource, amount in has.items() if amount},
        taken={resource: amount for resource, amount in in_use.items() if amount},
        features=frozenset(features.split(",")) - {"", "(null)"},
    )


SHOW_LICENCES = ("scontrol", "-o", "show", "licenses")
#: Not of hierarchical resources, since their names have a line for each layer of nodes.
_LICENCE = re.compile(
    r"^LicenseName=(\S+) (?!.*\bMode=)\s*Total=(\d+).*?\bFree=(\d+)", re.MULTILINE
)


def read_licences(read: Read) -> dict[str, tuple[int, int]]:
    """Number of all and of the free licences of the cluster by name."""
    found = _LICENCE.findall(read(SHOW_LICENCES))
    return {name: (int(total), int(free)) for name, total, free in found}


def read_free_licences(read: Read) -> dict[str, float]:
    """Number of free licences by the names of `domain.resources`."""
    return {LICENCE_PREFIX + name: float(free) for name, (_, free) in read_licences(read).items()}


SHOW_QOS_NAMES = (
    *("sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "qos"),
    "format=Name",
)
_PARTITION = re.compile(r"^PartitionName=(\S+)", re.MULTILINE)


def read_site_names(read: Read) -> SiteNames:
    """Ask for all names; None if a command fails or prints none, as without accounting."""

    def names(
        command: Sequence[str], names_in: Callable[[str], Iterable[str]]
    ) -> frozenset[str] | None:
        try:
            return frozenset(names_in(read(command))) or None
        except BatchSystemError:
            return None

    return SiteNames(
        accounts=names(SSHARE, lambda text: parse_shares(text).shares),
        partitions=names(SHOW_PARTITIONS, _PARTITION.findall),
        qos=names(SHOW_QOS_NAMES, str.split),
    )


SSHARE = (
    *("sshare", "--all", "--parsable2", "--noheader"),
    *("-o", "Account,User,RawShares,RawUsage,TRESRunMins"),
)
ROOT = "root"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountTree:
    """Accounts that have users of their own, in the order of `sshare`."""

    #: Account -> fraction of the cluster, sum 1; 0 if `RawShares` is no number.
    shares: dict[str, float]
    #: Account -> decayed billing-seconds of its own users, without its sub-accounts'.
    usage: dict[str, float]
    #: Account -> processor-seconds and billing-seconds that the running jobs of its own users had
    #: left until their time limits when slurmctld last calculated usage; only accounts with any.
    left: dict[str, tuple[float, float]] = field(default_factory=dict)


def parse_shares(text: str) -> AccountTree:
    """Shares and usage from the answer of SSHARE.

    Sub-accounts and users of an account divide its share, as in Slurm's fair tree; its own share is
    the sum of its users' parts. Users directly under the root have none.
    """
    tree, usage = parse_tree(text)
    fractions, own, parent = _fractions(tree), usage.tolist(), tree.parent.tolist()
    has_users = [False] * len(parent)
    for at, (user, above, used) in enumerate(zip(tree.users, parent, usage.tolist(), strict=True)):
        if user:
            has_users[above] = True
        elif at:
            own[above] -= used
    leaves = [at for at in range(1, len(parent)) if has_users[at]]
    whole = sum(fractions[at] for at in leaves)
    return AccountTree(
        shares={tree.accounts[at]: fractions[at] / whole if whole else 0.0 for at in leaves},
        usage={tree.accounts[at]: max(own[at], 0.0) for at in leaves},
        left=_left(text),
    )


def usage_now(
    tree: AccountTree, accounts: Sequence[str], running: RunningJobs, now: float
) -> FloatArray:
    """Usage of accounts, with what their running jobs used since slurmctld last counted it.

    slurmctld counts running jobs each PriorityCalcPeriod (five minutes by default), and each job
    when it ends. The uncounted time is the run time left by slurmctld's count, less what is left
    now. An account with a running job without a time limit gets nothing added.
    """
    usage = np.array([tree.usage.get(name, 0.0) for name in accounts], dtype=np.float64)
    jobs, ran = running.jobs, np.maximum(now - running.start, 0.0)
    of_job = (jobs.processors * np.maximum(jobs.time_limit - ran, 0.0), jobs.processors * ran)
    left, used = (np.bincount(jobs.account, each, len(accounts)) for each in of_job)
    for at, name in enumerate(accounts):
        counted = tree.left.get(name)
        if counted is not None and not math.isnan(left[at]):
            processors, billing = counted
            usage[at] += min(max(processors - left[at], 0.0), used[at]) * billing / processors
    return usage


def _left(text: str) -> dict[str, tuple[float, float]]:
    """`AccountTree.left` from the lines of users, with TRESRunMins such as `cpu=12,mem=640`."""
    found: dict[str, tuple[float, float]] = {}
    for line in text.splitlines():
        account, user, _, _, *run_minutes = line.split("|")
        if not user or not run_minutes:
            continue
        pairs = (each.rpartition("=") for each in run_minutes[0].split(","))
        minutes = {name: float(amount) for name, _, amount in pairs if amount.isdigit()}
        processors = minutes.get("cpu", 0.0)
        before = found.get(name := account.strip(), (0.0, 0.0))
        found[name] = (
            before[0] + processors * MINUTE,
            before[1] + minutes.get("billing", processors) * MINUTE,
        )
    return {name: left for name, left in found.items() if left[0] > 0.0}


def parse_tree(text: str) -> tuple[ShareTree, FloatArray]:
    """The tree of the answer of SSHARE, and usage in billing-seconds, shape [n].

    sshare prints no priorities of associations. If PrivateData hides the root, it is implied.
    """
    rows = [(ROOT, "", -1, math.nan, 0.0)]
    line_of_ancestors, place = [0], dict[str, int]()
    for line in text.splitlines():
        try:
            account, user, shares, usage, *_ = line.split("|")
            name, service = account.strip(), float(usage or 0)
            share = float(shares) if shares.isdigit() else math.nan  # of the word `parent`
            if user:
                above = place[name]
            else:
                depth = len(account) - len(account.lstrip())
                del line_of_ancestors[depth:]
                above = line_of_ancestors[-1] if line_of_ancestors else 0
        except (ValueError, KeyError) as error:
            raise not_understood("sshare", line) from error
        if name == ROOT and not user:
            at, rows[0] = 0, (ROOT, "", -1, share, service)
        else:
            at = len(rows)
            rows.append((name, user, above, share, service))
        if not user:
            place[name] = at
            line_of_ancestors.append(at)
    accounts, users, parent, raw, used = zip(*rows, strict=True)
    tree = ShareTree(
        accounts=accounts,
        users=users,
        parent=np.array(parent, dtype=np.int64),
        shares=np.array(raw),
        priority=np.zeros(len(raw)),
    )
    return tree, np.array(used)


def _fractions(tree: ShareTree) -> list[float]:
    """The part of the cluster of each account's own users, by place; 0 for users."""
    parent, users = tree.parent.tolist(), tree.users
    count = len(parent)
    numbers = np.nan_to_num(tree.shares).tolist()
    of_users, sub_accounts = [0.0] * count, [0.0] * count
    for at in range(1, count):
        (of_users if users[at] else sub_accounts)[parent[at]] += numbers[at]
    whole, own = [1.0] * count, [0.0] * count
    for at in range(count):
        if users[at]:
            continue
        if at:
            above = parent[at]
            divided = sub_accounts[above] + (of_users[above] if above else 0.0)
            whole[at] = whole[above] * (numbers[at] / divided if divided else 1.0)
        below = sub_accounts[at]
        own[at] = whole[at] * (of_users[at] / (of_users[at] + below) if below else 1.0)
    return own
