"""What `rlscheduler` alone may be asked on the command line."""

from slurm_rl_plugin.papers.study.study import Switch

SEARCH = Switch(
    "--search",
    "rlscheduler: also search a score on the very sequences it is measured on "
    "(in-sample; some minutes)",
)
