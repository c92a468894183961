"""The names of sbatch's options, of all releases from 22.05 to 26.05, and which have a value."""

from __future__ import annotations

#: Letter of an option with a value -> its long name.
VALUED_LETTERS = {
    "A": "account",
    "a": "array",
    "B": "extra-node-info",
    "b": "begin",
    "C": "constraint",
    "c": "cpus-per-task",
    "D": "chdir",
    "d": "dependency",
    "e": "error",
    "F": "nodefile",
    "G": "gpus",
    "i": "input",
    "J": "job-name",
    "L": "licenses",
    "M": "clusters",
    "m": "distribution",
    "N": "nodes",
    "n": "ntasks",
    "o": "output",
    "p": "partition",
    "q": "qos",
    "S": "core-spec",
    "t": "time",
    "w": "nodelist",
    "x": "exclude",
}
#: Letter of an option without a value that decides something here -> its long name.
FLAG_LETTERS = {"W": "wait"}
#: Long options whose value, where they have one, stands behind an equals sign.
FLAGS = frozenset(
    {
        *("consolidate-segments", "contiguous", "exclusive", "get-user-env", "help", "hold"),
        *("ignore-pbs", "nice", "no-kill", "no-requeue", "oom-kill-step", "overcommit"),
        *("oversubscribe", "parsable", "propagate", "quiet", "reboot", "requeue", "resv-ports"),
        *("share", "spread-job", "spread-segments", "stepmgr", "test-only", "usage"),
        *("use-min-nodes", "verbose", "version", "wait"),
    }
)
#: Long options whose value is the next word where no equals sign follows.
VALUED = frozenset(
    {
        *("acctg-freq", "batch", "bb", "bbf", "cluster-constraint", "comment", "container"),
        *("container-id", "cores-per-socket", "cpu-freq", "cpus-per-gpu", "deadline"),
        *("delay-boot", "export", "export-file", "extra", "gid", "gpu-bind", "gpu-freq"),
        *("gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "hint"),
        *("kill-on-invalid-dep", "mail-type", "mail-user", "mcs-label", "mem", "mem-bind"),
        *("mem-per-cpu", "mem-per-gpu", "mincpus", "network", "ntasks-per-core"),
        *("ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket", "open-mode", "power"),
        *("prefer", "priority", "profile", "reservation", "segment", "signal"),
        *("sockets-per-node", "switches", "thread-spec", "threads-per-core", "time-min", "tmp"),
        *("tres-bind", "tres-per-task", "uid", "wait-all-nodes", "wckey", "wrap"),
        *VALUED_LETTERS.values(),
    }
)
#: Variable of sbatch -> option that it stands for.
VARIABLES = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_EXCLUSIVE": "exclusive",
    "SBATCH_GPUS": "gpus",
    "SBATCH_GPUS_PER_NODE": "gpus-per-node",
    "SBATCH_GPUS_PER_TASK": "gpus-per-task",
    "SBATCH_GRES": "gres",
    "SBATCH_JOB_NAME": "job-name",
    "SBATCH_MEM_PER_CPU": "mem-per-cpu",
    "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos",
    "SBATCH_RESERVATION": "reservation",
    "SBATCH_TIMELIMIT": "time",
    "SBATCH_WAIT": "wait",
}
