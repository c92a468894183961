"""The main dashboard: each row is a question of a site about its queue."""

from __future__ import annotations

from panels import (
    ACCOUNT,
    FALLBACK,
    LAST_SUCCESS,
    MODE,
    QUEUE,
    SITE,
    Row,
    a_minute,
    lines,
    stat,
    states,
    steps,
    table,
)

TWO_MINUTES = 120


def wait_quantile(part: float, job_class: str) -> str:
    """Wait that this part of the jobs of a class, started in the window, stayed below."""
    return (
        f"histogram_quantile({part:g}, sum by (cluster, le) (rate(slurm_rl_job_wait_seconds_bucket"
        f'{{{QUEUE}, job_class="{job_class}"}}[$window])))'
    )


def within_two_minutes(job_class: str) -> str:
    """Fraction of the jobs of a class, started in the window, that waited 120 s at most."""
    chosen = f'{QUEUE}, job_class="{job_class}"'
    quick = f'{chosen}, le="120.0"'
    return (
        f"sum by (cluster) (rate(slurm_rl_job_wait_seconds_bucket{{{quick}}}[$window]))"
        " / (sum by (cluster) "
        f"(rate(slurm_rl_job_wait_seconds_count{{{chosen}}}[$window])) > 0)"
    )


def of_accounts(metric: str) -> str:
    """A gauge of accounts; of two daemons on one cluster, either's."""
    return f"max by (cluster, account) ({metric}{{{ACCOUNT}}})"


def of_usable(metric: str) -> str:
    """Amounts of each resource, as a metric has them, as parts of the machine."""
    by = "max by (cluster, resource)"
    return f"{by} ({metric}{{{SITE}}}) / ({by} (slurm_rl_resource_usable{{{SITE}}}) > 0)"


ACCOUNT_WAIT = (
    f"sum by (cluster, account) (rate(slurm_rl_account_wait_seconds_total{{{ACCOUNT}}}[$window]))"
    " / (sum by (cluster, account) "
    f"(rate(slurm_rl_account_jobs_started_total{{{ACCOUNT}}}[$window])) > 0)"
)
UTILITY = (
    f"sum by (cluster, job_class) (rate(slurm_rl_job_time_utility_sum{{{SITE}}}[$window]))"
    " / (sum by (cluster, job_class) "
    f"(rate(slurm_rl_job_time_utility_count{{{SITE}}}[$window])) > 0)"
)
MAIN: list[Row] = [
    (
        "Is all well?",
        [
            MODE,
            LAST_SUCCESS,
            FALLBACK,
            stat(
                "Interactive within 2 min",
                "Of the interactive jobs that started in the window.",
                (within_two_minutes("interactive"), ""),
                "percentunit",
                thresholds=steps((None, "red"), (0.5, "orange"), (0.9, "green")),
            ),
            stat(
                "Fairness",
                "1: each account used just its share (2008, eq. 4).",
                (f"max by (cluster) (slurm_rl_fairness_ratio{{{SITE}}})", ""),
                "percentunit",
                thresholds=steps((None, "red"), (0.5, "orange"), (0.8, "green")),
            ),
            stat(
                "Pending jobs",
                "Seen in the last cycle; an array is one.",
                (f"sum by (cluster) (slurm_rl_pending_jobs{{{QUEUE}}})", ""),
            ),
        ],
    ),
    (
        "Do interactive jobs start at once, and what does batch pay for it?",
        [
            lines(
                "Wait of interactive jobs",
                "From eligible to start, of jobs started in the window. Line: the goal, 2 minutes.",
                "s",
                (wait_quantile(0.5, "interactive"), "half below {{cluster}}"),
                (wait_quantile(0.9, "interactive"), "nine in ten below {{cluster}}"),
                line_at=TWO_MINUTES,
            ),
            lines(
                "Wait of batch jobs",
                "The same of the batch class.",
                "s",
                (wait_quantile(0.5, "batch"), "half below {{cluster}}"),
                (wait_quantile(0.9, "batch"), "nine in ten below {{cluster}}"),
                line_at=TWO_MINUTES,
            ),
            lines(
                "Utility by class",
                "Mean time utility of jobs that ended in the window; 1: all in time.",
                "percentunit",
                (UTILITY, "{{job_class}} {{cluster}}"),
                most=1,
            ),
        ],
    ),
    (
        "Does each account get its share?",
        [
            lines(
                "Usage against target",
                "Dashed: the share; solid: the fraction of Slurm's decayed usage.",
                "percentunit",
                (
                    of_accounts("slurm_rl_account_share_target_ratio"),
                    "target {{account}} {{cluster}}",
                ),
                (of_accounts("slurm_rl_account_usage_ratio"), "usage {{account}} {{cluster}}"),
                most=1,
            ),
            lines(
                "Service over entitlement",
                "Of each account in the last fortnight; below 1 it got less than its shares give.",
                "percentunit",
                (of_accounts("slurm_rl_entitlement_ratio"), "{{account}} {{cluster}}"),
                (
                    f"max by (cluster) (slurm_rl_misdelivered_ratio{{{SITE}}})",
                    "to the wrong account {{cluster}}",
                ),
            ),
            lines(
                "Fairness",
                "Fairness (2008, eq. 4), and the largest share that an account is short of.",
                "percentunit",
                (f"max by (cluster) (slurm_rl_fairness_ratio{{{SITE}}})", "fairness {{cluster}}"),
                (
                    f"max by (cluster) (slurm_rl_share_deficit_ratio{{{SITE}}})",
                    "largest deficit {{cluster}}",
                ),
                most=1,
            ),
            table(
                "Accounts",
                "Now; the mean wait is of jobs started in the window.",
                (of_accounts("slurm_rl_account_share_target_ratio"), "target"),
                (of_accounts("slurm_rl_account_usage_ratio"), "usage"),
                (of_accounts("slurm_rl_account_pending_jobs"), "pending"),
                (ACCOUNT_WAIT, "mean wait (s)"),
            ),
            lines(
                "Mean wait by account",
                "Of jobs started in the window; an account without starts has none.",
                "s",
                (ACCOUNT_WAIT, "{{account}} {{cluster}}"),
            ),
        ],
    ),
    (
        "Who waits, and for how long?",
        [
            lines(
                "Pending jobs by class",
                "Seen in the last cycle; an array is one.",
                "none",
                (
                    f"sum by (cluster, job_class) (slurm_rl_pending_jobs{{{QUEUE}}})",
                    "{{job_class}} {{cluster}}",
                ),
                stacked=True,
            ),
            lines(
                "Age of pending jobs that could start",
                "Accrued wait. Held jobs, and those that wait by their own doing, do not count.",
                "s",
                (
                    f"max by (cluster, job_class) (slurm_rl_pending_age_seconds_max{{{QUEUE}}})",
                    "oldest {{job_class}} {{cluster}}",
                ),
                (
                    f"max by (cluster, job_class) (slurm_rl_pending_age_seconds_median{{{QUEUE}}})",
                    "median {{job_class}} {{cluster}}",
                ),
            ),
        ],
    ),
    (
        "What does it change?",
        [
            lines(
                "Factors written a minute",
                "By direction; reset takes our factor back.",
                "none",
                (a_minute("slurm_rl_adjustments_total", "direction"), "{{direction}} {{cluster}}"),
            ),
            lines(
                "Changes not made, a minute",
                "By reason; jobs left alone count in each cycle.",
                "none",
                (
                    a_minute("slurm_rl_adjustments_suppressed_total", "reason"),
                    "{{reason}} {{cluster}}",
                ),
            ),
            lines(
                "Jobs that our order moves",
                "Fewest that turn the site's order into ours; in shadow mode: would.",
                "none",
                (
                    f"sum by (cluster, partition) (slurm_rl_rank_changes{{{QUEUE}}})",
                    "{{partition}} {{cluster}}",
                ),
            ),
            lines(
                "Jobs with a factor",
                "Pending jobs with a factor.",
                "none",
                (
                    f"sum by (cluster) (slurm_rl_jobs_with_factor{{{QUEUE}}})",
                    "jobs with a factor {{cluster}}",
                ),
            ),
        ],
    ),
    (
        "What is kept free for interactive jobs?",
        [
            lines(
                "Reserve and limit",
                "Processors kept free of batch jobs, and how many those may use together; no line "
                "where nothing limits them. In shadow mode what it would be.",
                "none",
                (
                    f"max by (cluster) (slurm_rl_reserve_processors{{{SITE}}})",
                    "kept free {{cluster}}",
                ),
                (
                    f"max by (cluster) (slurm_rl_batch_limit_processors{{{SITE}}} < Inf)",
                    "batch jobs at most {{cluster}}",
                ),
            ),
            states(
                "Reason of the limit",
                "1: why batch jobs have the limit that they have, or none.",
                "slurm_rl_batch_limit_reason",
            ),
            lines(
                "Changes of the limit a minute",
                "Lifted: for a batch job that starves, in fallback, or when nobody comes.",
                "none",
                (
                    a_minute("slurm_rl_batch_limit_changes_total", "direction"),
                    "{{direction}} {{cluster}}",
                ),
                (
                    a_minute("slurm_rl_batch_limit_failures_total", "reason"),
                    "failed: {{reason}} {{cluster}}",
                ),
            ),
            lines(
                "Interactive jobs that count as batch",
                "Pending jobs by reason, and users whose time limits make no job interactive.",
                "none",
                (
                    f"max by (cluster, reason) (slurm_rl_interactive_jobs_as_batch{{{SITE}}})",
                    "{{reason}} {{cluster}}",
                ),
                (f"max by (cluster) (slurm_rl_users_as_batch{{{SITE}}})", "users {{cluster}}"),
            ),
        ],
    ),
    (
        "Which resource do jobs wait for?",
        [
            lines(
                "In use",
                "Part of what usable nodes have; only where more than processors is counted.",
                "percentunit",
                (of_usable("slurm_rl_resource_running"), "{{resource}} {{cluster}}"),
                most=1,
            ),
            lines(
                "Asked for by pending jobs",
                "As multiples of what usable nodes have; an array is one job.",
                "none",
                (of_usable("slurm_rl_resource_pending"), "{{resource}} {{cluster}}"),
            ),
            lines(
                "Batch jobs at most",
                "Limits of the reserve, as parts of what usable nodes have; no line where nothing "
                "limits them.",
                "percentunit",
                (of_usable("slurm_rl_batch_limit_resource"), "{{resource}} {{cluster}}"),
                most=1,
            ),
        ],
    ),
    (
        "What is our order worth?",
        [
            states(
                "Whose turn it is",
                "In an experiment the site's own order and ours hold the queue in turns.",
                "slurm_rl_experiment",
            ),
            lines(
                "Cost of ours over the site's order",
                "Below 1 ours is better; the ends of the interval are right whenever one looks.",
                "none",
                (
                    "max by (cluster, goal, which) "
                    f"(slurm_rl_experiment_cost_ratio{{{SITE}}} < 10)",
                    "{{goal}} {{which}} {{cluster}}",
                ),
                line_at=1,
            ),
            table(
                "What is known",
                "A goal is better, worse, or inconclusive so far.",
                (
                    f"max by (cluster, goal, word) (slurm_rl_experiment_finding{{{SITE}}} == 1)",
                    "",
                ),
            ),
            stat(
                "Pairs of blocks",
                "That are over: the same hours of two days, one under each order.",
                (f"max by (cluster) (slurm_rl_experiment_pairs{{{SITE}}})", ""),
            ),
        ],
    ),
]
