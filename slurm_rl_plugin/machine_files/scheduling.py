"""How the cluster schedules: backfilling, weights of priorities, what is given out of a node."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slurm_rl_plugin.domain.machine import BackfillSettings, PriorityWeights
from slurm_rl_plugin.machine_files.database import enforces_limits
from slurm_rl_plugin.machine_files.values import NOTHING, Value, weights_of
from slurm_rl_plugin.units import MINUTE

ClusterKeys = Mapping[str, Value]
_INTEGER = re.compile(r"\s*(-?\d{1,18})", re.ASCII)
#: The parameters that `BackfillSettings` holds, by field: name, seconds of its unit, least value.
_NUMBERS: Mapping[str, tuple[str, float, int]] = {
    "interval": ("bf_interval", 1.0, 1),
    "window": ("bf_window", MINUTE, 1),
    "resolution": ("bf_resolution", 1.0, 1),
    "most_jobs": ("bf_max_job_test", 1, 1),
    "most_of_user": ("bf_max_job_user", 1, 0),
    "depth": ("default_queue_depth", 1, 0),
    "main_interval": ("sched_interval", 1.0, 0),
}
#: Other names of SchedulerParameters -> those that Slurm looks for first.
_OTHER_NAMES = {
    "max_job_bf": "bf_max_job_test",
    "max_rpc_count": "max_rpc_cnt",
    "bf_yield_rpc_count": "bf_yield_rpc_cnt",
}
MODELLED_PARAMETERS = frozenset(name for name, _, _ in _NUMBERS.values())
BACKFILL, MULTIFACTOR, LINEAR = "sched/backfill", "priority/multifactor", "select/linear"
_WEIGHTS = {
    "age": "priorityweightage",
    "fairshare": "priorityweightfairshare",
    "size": "priorityweightjobsize",
    "partition": "priorityweightpartition",
    "qos": "priorityweightqos",
    "association": "priorityweightassoc",
}


@dataclass(frozen=True, slots=True)
class NodeSharing:
    """What of a node jobs are given.

    Attributes:
        whole_nodes: nodes are given out whole.
        words: of SelectTypeParameters, in lower case.
    """

    whole_nodes: bool
    words: tuple[str, ...]

    @property
    def counts_memory(self) -> bool:
        """Memory is given out as CPUs are."""
        return any(word.endswith("_memory") for word in self.words)


def parameters_of(settings: ClusterKeys) -> dict[str, str]:
    """SchedulerParameters by name in lower case; "" for a word alone.

    Of a parameter that is there twice the first one holds, as Slurm searches the text for it.
    """
    value = settings.get("schedulerparameters")
    words = () if value is None or value.text.lower() in NOTHING else value.words
    found: dict[str, str] = {}
    for word in words:
        name, _, number = word.partition("=")
        found.setdefault(name.strip().lower(), number.strip())
    for other, name in _OTHER_NAMES.items():
        if other in found:
            found.setdefault(name, found.pop(other))
    return found


def backfill_of(settings: ClusterKeys) -> BackfillSettings:
    """SchedulerType and SchedulerParameters; what Slurm would not take has Slurm's default."""
    given = parameters_of(settings)
    numbers = {
        name: int(found) * unit if unit == 1 else found * unit
        for name, (key, unit, least) in _NUMBERS.items()
        if (found := _number(given.get(key), least)) is not None
    }
    if _number(given.get("sched_interval"), -1) == -1:
        numbers["main_interval"] = math.inf  # Slurm's word for: never
    switched_off = _number(given.get("bf_interval"), -1) == -1
    return BackfillSettings(
        backfills=_text(settings, "schedulertype", BACKFILL) == BACKFILL and not switched_off,
        **numbers,  # type: ignore[arg-type] # each as its field wants it
    )


def refused_parameters(settings: ClusterKeys) -> Iterator[str]:
    """Those whose value Slurm does not take: their default holds."""
    given = parameters_of(settings)
    for key, _, least in _NUMBERS.values():
        if key in given and _number(given[key], least) is None and given[key] != "-1":
            yield (
                f"SchedulerParameters {key}={given[key]}: Slurm takes no such value, so its "
                "default holds."
            )


def _number(text: str | None, least: int) -> int | None:
    found = _INTEGER.match(text or "")
    return int(found[1]) if found and int(found[1]) >= least else None


def weights_of_priorities(settings: ClusterKeys) -> PriorityWeights:
    """PriorityWeight* and what goes with them; all 0 where jobs start as they came."""
    if _text(settings, "prioritytype", MULTIFACTOR) != MULTIFACTOR:
        return PriorityWeights()
    default = PriorityWeights()
    tres = settings.get("priorityweighttres")
    flags = settings.get("priorityflags")
    words = () if flags is None or flags.text.lower() in NOTHING else flags.words
    return PriorityWeights(
        **{name: float(_whole(settings, key)) for name, key in _WEIGHTS.items()},  # type: ignore[arg-type]
        resources={} if tres is None or tres.text.lower() in NOTHING else weights_of(tres),
        # of 0 s a job has all of its age as soon as it has any
        highest_age=max(_span(settings, "prioritymaxage", default.highest_age), 1.0),
        half_life=_span(settings, "prioritydecayhalflife", default.half_life) or math.inf,
        dampening=float(max(_whole(settings, "fairsharedampeningfactor"), 1)),
        counts_ends=enforces_limits(settings),
        reset_period=_text(settings, "priorityusageresetperiod", default.reset_period).upper(),
        period=_period(settings, default.period),
        favours_small="priorityfavorsmall" in settings and settings["priorityfavorsmall"].truth(),
        flags=frozenset(word.upper() for word in words),
    )


def _whole(settings: ClusterKeys, key: str) -> int:
    return settings[key].number() if key in settings else 0


def _span(settings: ClusterKeys, key: str, default: float) -> float:
    return settings[key].seconds() if key in settings else default


def _period(settings: ClusterKeys, default: float) -> float:
    seconds = _span(settings, "prioritycalcperiod", default)
    if not 0.0 < seconds < math.inf:
        raise settings["prioritycalcperiod"].fault("Slurm takes no such period; write minutes")
    return seconds


def sharing_of(settings: ClusterKeys) -> NodeSharing:
    """SelectType and SelectTypeParameters; by default CR_Core_Memory of select/cons_tres."""
    linear = _text(settings, "selecttype", "select/cons_tres") == LINEAR
    default = "" if linear else "cr_core_memory"
    words = _text(settings, "selecttypeparameters", default).split(",")
    return NodeSharing(linear, tuple(word.strip() for word in words))


def _text(settings: ClusterKeys, key: str, default: str) -> str:
    text = settings[key].text.lower() if key in settings else ""
    return default if text in NOTHING else text


def name_of(settings: ClusterKeys) -> str:
    """ClusterName; "" where none is told."""
    return settings["clustername"].text if "clustername" in settings else ""


def licences_of(settings: ClusterKeys) -> dict[str, float]:
    """Licences=NAME[:COUNT],...; one where no count is given."""
    value = settings.get("licenses")
    if value is None or value.text.lower() in NOTHING:
        return {}
    found: dict[str, float] = {}
    for word in value.words:
        name, _, count = word.partition(":")
        if not name or not (count or "1").isascii() or not (count or "1").isdigit():
            raise value.fault(f"{word} is no NAME:COUNT; write such as matlab:10")
        found[name] = found.get(name, 0.0) + float(count or 1)
    return found


#: What holds here where a site has set the key.
_KEYS = {
    "burstbuffertype": "data need no staging",
    "completewait": "nodes are free as soon as a job has ended",
    "defcpupergpu": "jobs get the CPUs that they ask for",
    "defmempergpu": "jobs get the memory that they ask for",
    "federationparameters": "one cluster is looked at",
    "maxmempercpu": "jobs get the memory and the CPUs that they ask for",
    "maxmempernode": "jobs get the memory that they ask for",
    "mcsplugin": "jobs of any two labels may share a node",
    "nodefeaturesplugins": "nodes have their features without a reboot",
    "overtimelimit": "jobs end at their limit",
    "preemptexempttime": "no job is preempted",
    "preemptmode": "no job is preempted or suspended",
    "preempttype": "no job is preempted",
    "priorityparameters": "priorities have no further parameters",
    "prioritysitefactorplugin": "no plugin adds to priorities",
    "resvoverrun": "jobs end at the end of their reservation",
    "slurmctldparameters": "nodes are there at once",
    "suspendtime": "nodes are not powered down",
    "topologyparam": "jobs are not kept on near nodes",
    "topologyplugin": "jobs are not kept on near nodes",
}
#: Values that say what holds without them, for any key and for one.
_NEUTRAL = NOTHING | {"0", "-1", "no", "off"}
_NEUTRAL_OF = {
    "burstbuffertype": ("burst_buffer/none",),
    "maxmempercpu": ("unlimited",),
    "maxmempernode": ("unlimited",),
    "mcsplugin": ("mcs/none",),
    "preempttype": ("preempt/none",),
    "prioritysitefactorplugin": ("site_factor/none", "priority/site_factor/none"),
    "preemptexempttime": ("00:00:00",),
    "suspendtime": ("infinite",),
    "topologyplugin": ("topology/none", "topology/flat", "topology/default"),
}
#: SchedulerParameters: what holds here where a site has set them.
_PARAMETERS = {
    "assoc_limit_stop": "a job that a limit holds stops no other",
    "batch_sched_delay": "batch jobs may start as they come",
    "bf_allow_magnetic_slot": "there are no reservations",
    "bf_busy_nodes": "idle nodes are planned with as well as others",
    "bf_hetjob_immediate": "jobs have one component",
    "bf_hetjob_prio": "jobs have one component",
    "bf_job_part_count_reserve": "every job that is looked at has a place in the plan",
    "bf_licenses": "licences are no part of the plan",
    "bf_max_job_array_resv": "each task of an array counts as a job",
    "bf_max_job_assoc": "backfill has no bound by association",
    "bf_max_job_part": "backfill has no bound by partition",
    "bf_max_job_start": "backfill may start any number of jobs in a pass",
    "bf_max_job_user_part": "backfill has no bound by user and partition",
    "bf_max_time": "a pass of backfill is never cut short",
    "bf_min_age_reserve": "jobs of any age have a place in the plan",
    "bf_min_prio_reserve": "jobs of any priority have a place in the plan",
    "bf_node_space_size": "the plan has no bound",
    "bf_one_resv_per_job": "a job has a place in the plan of each of its partitions",
    "bf_running_job_reserve": "the plan knows running jobs as they are",
    "bf_topopt_enable": "jobs are not kept on near nodes",
    "bf_topopt_iterations": "jobs are not kept on near nodes",
    "bf_window_linear": "ends of running jobs are exact",
    "bf_yield_interval": "backfill gives no locks back",
    "bf_yield_rpc_cnt": "backfill gives no locks back",
    "bf_yield_sleep": "backfill gives no locks back",
    "build_queue_timeout": "building the queue takes no time",
    "defer": "a job is tried as it comes",
    "defer_batch": "a job is tried as it comes",
    "delay_boot": "nodes are never rebooted",
    "extra_constraints": "jobs have no further constraints",
    "max_rpc_cnt": "Slurm is never too busy to schedule",
    "max_sched_time": "a pass of the main scheduler is never cut short",
    "max_switch_wait": "jobs are not kept on near nodes",
    "no_backup_scheduling": "there is one controller",
    "pack_serial_at_end": "serial jobs are placed as others are",
    "partition_job_depth": "the main scheduler has no bound by partition",
    "preempt_reorder_count": "no job is preempted",
    "preempt_send_user_signal": "no job is preempted",
    "preempt_strict_order": "no job is preempted",
    "preempt_youngest_first": "no job is preempted",
    "reduce_completing_frag": "nodes are free as soon as a job has ended",
    "sched_max_job_start": "the main scheduler may start any number of jobs in a pass",
    "sched_min_interval": "the main scheduler looks after each event",
    "time_min_as_soft_limit": "plans are made with time limits",
    "whole_hetjob": "jobs have one component",
}
_PARAMETERS_WITHOUT_EFFECT = frozenset(
    {
        *("allow_zero_lic", "bb_array_stage_cnt", "correspond_after_task_cnt", "default_gbytes"),
        "bf_continue",  # a simulated pass is never interrupted
        *(
            "disable_hetjob_steps",
            "disable_job_shrink",
            "enable_hetjob_steps",
            "enable_job_state_cache",
        ),
        *("enable_user_top", "ignore_constraint_validation", "ignore_numa"),
        *("ignore_prefer_validation", "max_array_tasks", "max_depend_depth", "max_script_size"),
        *(
            "max_submit_line_size",
            "no_env_cache",
            "nohold_on_prolog_fail",
            "requeue_on_resume_failure",
        ),
        *("requeue_setup_env_fail", "salloc_wait_nodes", "sbatch_wait_nodes", "spec_cores_first"),
        *("step_retry_count", "step_retry_time"),
    }
)
#: Of SelectTypeParameters.
_SELECTION = {
    "cr_lln": "nodes are not filled evenly",
    "cr_one_task_per_core": "a task may have one thread of a core",
    "cr_pack_nodes": "a job is spread over the nodes that it asks for",
    "cr_socket": "CPUs are given out one by one",
    "cr_socket_memory": "CPUs are given out one by one",
    "ll_shared_gres": "a shared GPU is one like any other",
    "multiple_sharing_gres_pj": "a job may have several shared GPUs",
    "one_task_per_sharing_gres": "tasks share GPUs freely",
    "enforce_binding_gres": "GPUs serve every socket of their node",
}
#: Of PriorityFlags.
_FLAGS = {
    "ACCRUE_ALWAYS": "a job ages once it is eligible",
    "DEPTH_OBLIVIOUS": "fair-share is by the fair tree",
    "INCR_ONLY": "a priority may fall",
}
#: How keys begin of which the rest here knows, or that have no weight for when jobs start.
_KNOWN = (
    *("accounting", "acctgather", "acct_", "allowspecresources", "auth", "backup", "batchstart"),
    *("bcast", "certgen", "certmgr", "clifilter", "clustername", "communication", "control"),
    *("corespecplugin", "cpufreq", "cred", "crypto", "dataparser", "debugflags", "defmem"),
    *("defruntime", "dependency", "disablerootjobs", "eiotimeout", "enforcepartlimits", "epilog"),
    *(
        "extsensors",
        "fairsharedamp",
        "fastschedule",
        "firstjobid",
        "frontend",
        "getenv",
        "gpufreq",
        "grestypes",
    ),
    *("groupupdate", "hashplugin", "healthcheck", "httpparser", "inactivelimit"),
    *("interactive", "job", "keepalive", "killonbadexit", "killwait", "launch", "licenses"),
    *("licenseparameters",),
    *("logtime", "mail", "maxarray", "maxbatch", "maxdbd", "maxjob", "maxnodecount", "maxstep"),
    *("maxtasks", "mcsparameters", "messagetimeout", "metrics", "minjobage", "mpi", "namespace"),
    *("plug", "poweraction", "powerp", "preemptparameters", "prep", "priorityd", "priorityf"),
    *(
        "prioritycalcperiod",
        "prioritymaxage",
        "prioritysitefactorparameters",
        "prioritytype",
        "priorityusage",
        "priorityweight",
    ),
    *("privatedata", "proctrack", "prolog", "propagate", "reboot", "reconfig", "requeue"),
    *("resume", "resvepilog", "resvprolog", "returntoservice", "route", "salloc", "sbcast"),
    *("scheduler", "scron", "select", "serializer", "slurm", "srun", "statesave", "suspend"),
    *("switch", "task", "tcptimeout", "tls", "tmpfs", "trackwckey", "treewidth", "unkillable"),
    *("urlparser", "usepam", "vsizefactor", "waittime", "x11"),
)


def not_modelled(settings: ClusterKeys) -> Iterator[str]:
    """A sentence on each key that would change starts and does not here."""
    for key, value in settings.items():
        if key in _KEYS:
            if _counts(key, value.text.lower()):
                yield f"{value.said}: {_KEYS[key]}."
        elif not key.startswith(_KNOWN):
            yield f"{value.said}: not known here, so it has no effect."
    yield from _parameters(settings)
    yield from _selection(settings)
    yield from _flags(settings)


def _counts(key: str, text: str) -> bool:
    """Whether the value says what the sentence denies."""
    if key == "slurmctldparameters":
        return "cloud" in text or "power" in text
    return text not in _NEUTRAL and text not in _NEUTRAL_OF.get(key, ())


def _parameters(settings: ClusterKeys) -> Iterator[str]:
    known = MODELLED_PARAMETERS | _PARAMETERS_WITHOUT_EFFECT
    for name, number in parameters_of(settings).items():
        word = f"SchedulerParameters {name}" + (f"={number}" if number else "")
        if name in _PARAMETERS and number != "0":
            yield f"{word}: {_PARAMETERS[name]}."
        elif name not in known and name not in _PARAMETERS:
            yield f"{word}: not known here, so it has no effect."


def _selection(settings: ClusterKeys) -> Iterator[str]:
    value = settings.get("selecttypeparameters")
    for word in value.words if value is not None else ():
        if (why := _SELECTION.get(word.lower())) is not None:
            yield f"SelectTypeParameters {word}: {why}."


def _flags(settings: ClusterKeys) -> Iterator[str]:
    value = settings.get("priorityflags")
    for word in value.words if value is not None else ():
        if (why := _FLAGS.get(word.upper())) is not None:
            yield f"PriorityFlags {word}: {why}."
