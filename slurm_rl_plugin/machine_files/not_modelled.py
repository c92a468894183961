"""Keys of slurm.conf that decide when jobs start and that nothing here models: a sentence each."""

from __future__ import annotations

from collections.abc import Iterator

from slurm_rl_plugin.machine_files.scheduling import MODELLED_PARAMETERS, ClusterKeys, parameters_of
from slurm_rl_plugin.machine_files.values import NOTHING

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
