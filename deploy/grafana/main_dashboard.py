"""The main dashboard: each row answers a question about the queue."""

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
    """Quantile of the waits of a class, of jobs started in the window."""
    return (
        f"histogram_quantile({part:g}, sum by (cluster, le) (rate(slurm_rl_job_wait_seconds_bucket"
        f'{{{QUEUE}, job_class="{job_class}"}}[$window])))'
    )


def within_two_minutes(job_class: str) -> str:
    """Fraction of the jobs of a class, started in the window, that waited at most 120 s."""
    chosen = f'{QUEUE}, job_class="{job_class}"'
    quick = f'{chosen}, le="120.0"'
    return (
        f"sum by (cluster) (rate(slurm_rl_job_wait_seconds_bucket{{{quick}}}[$window]))"
        " / (sum by (cluster) "
        f"(rate(slurm_rl_job_wait_seconds_count{{{chosen}}}[$window])) > 0)"
    )


def of_accounts(metric: str) -> str:
    """A gauge of accounts; the larger value of two daemons on one cluster."""
    return f"max by (cluster, account) ({metric}{{{ACCOUNT}}})"


def of_usable(metric: str) -> str:
    """A metric of resource amounts as fractions of the machine."""
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
        "Does the daemon work?",
        [
            MODE,
            LAST_SUCCESS,
            FALLBACK,
            stat(
                "Interactive within 2 min",
                "Fraction of the interactive jobs that started within 2 minutes, in the window.",
                (within_two_minutes("interactive"), ""),
                "percentunit",
                thresholds=steps((None, "red"), (0.5, "orange"), (0.9, "green")),
            ),
            stat(
                "Fairness",
                "1: each account used exactly its share (2008, eq. 4).",
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
        "Do interactive jobs start at once, and how long do batch jobs wait?",
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
                "From eligible to start, of batch jobs started in the window.",
                "s",
                (wait_quantile(0.5, "batch"), "half below {{cluster}}"),
                (wait_quantile(0.9, "batch"), "nine in ten below {{cluster}}"),
                line_at=TWO_MINUTES,
            ),
            lines(
                "Utility by class",
                "Mean time utility of jobs that ended in the window; 1: all jobs on time.",
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
                "Dashed: the share. Solid: the fraction of Slurm's decayed usage.",
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
                "Each account in the last fortnight; below 1 it got less than its entitlement.",
                "percentunit",
                (of_accounts("slurm_rl_entitlement_ratio"), "{{account}} {{cluster}}"),
                (
                    f"max by (cluster) (slurm_rl_misdelivered_ratio{{{SITE}}})",
                    "to the wrong account {{cluster}}",
                ),
            ),
            lines(
                "Fairness",
                "Fairness (2008, eq. 4), and the largest deficit of an account.",
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
                "Current values; mean wait of jobs started in the window.",
                (of_accounts("slurm_rl_account_share_target_ratio"), "target"),
                (of_accounts("slurm_rl_account_usage_ratio"), "usage"),
                (of_accounts("slurm_rl_account_pending_jobs"), "pending"),
                (ACCOUNT_WAIT, "mean wait (s)"),
            ),
            lines(
                "Mean wait by account",
                "Jobs started in the window; no line for an account without starts.",
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
                "Accrued wait, without held jobs and jobs that their own user delays.",
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
        "What does the daemon change?",
        [
            lines(
                "Factors written a minute",
                "By direction; reset: our factor is rolled back.",
                "none",
                (a_minute("slurm_rl_adjustments_total", "direction"), "{{direction}} {{cluster}}"),
            ),
            lines(
                "Suppressed changes a minute",
                "By reason; untouched jobs count in each cycle.",
                "none",
                (
                    a_minute("slurm_rl_adjustments_suppressed_total", "reason"),
                    "{{reason}} {{cluster}}",
                ),
            ),
            lines(
                "Jobs that our order moves",
                "Minimum number of moves from the site's order to ours; also in shadow mode.",
                "none",
                (
                    f"sum by (cluster, partition) (slurm_rl_rank_changes{{{QUEUE}}})",
                    "{{partition}} {{cluster}}",
                ),
            ),
            lines(
                "Jobs with a factor",
                "Pending jobs that carry a factor.",
                "none",
                (
                    f"sum by (cluster) (slurm_rl_jobs_with_factor{{{QUEUE}}})",
                    "jobs with a factor {{cluster}}",
                ),
            ),
        ],
    ),
    (
        "How many processors are kept free for interactive jobs?",
        [
            lines(
                "Reserve and limit",
                "Processors kept free of batch jobs, and the limit on all batch jobs, if there is "
                "one. In shadow mode, the limit that active mode would set.",
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
                "Colored: the current reason for the limit on batch jobs, or for no limit.",
                "slurm_rl_batch_limit_reason",
            ),
            lines(
                "Changes of the limit a minute",
                "Lifted: for a starving batch job, in fallback, or without new interactive jobs.",
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
                "Pending jobs by reason, and users whose time limits are not trusted.",
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
                "Fraction of the usable nodes; only if Slurm allocates more than processors.",
                "percentunit",
                (of_usable("slurm_rl_resource_running"), "{{resource}} {{cluster}}"),
                most=1,
            ),
            lines(
                "Requested by pending jobs",
                "Multiples of the usable nodes; an array is one job.",
                "none",
                (of_usable("slurm_rl_resource_pending"), "{{resource}} {{cluster}}"),
            ),
            lines(
                "Batch jobs at most",
                "Limits of the reserve, as fractions of the usable nodes; no line without a limit.",
                "percentunit",
                (of_usable("slurm_rl_batch_limit_resource"), "{{resource}} {{cluster}}"),
                most=1,
            ),
        ],
    ),
    (
        "Is our order better than the site's?",
        [
            states(
                "Order in force",
                "In an experiment, the site's own order and ours are in force in turns.",
                "slurm_rl_experiment",
            ),
            lines(
                "Cost of our order over the site's",
                "Below 1, ours is better; the interval is valid at any number of looks.",
                "none",
                (
                    "max by (cluster, goal, which) "
                    f"(slurm_rl_experiment_cost_ratio{{{SITE}}} < 10)",
                    "{{goal}} {{which}} {{cluster}}",
                ),
                line_at=1,
            ),
            table(
                "Findings",
                "Each goal is better, worse or inconclusive under our order.",
                (
                    f"max by (cluster, goal, word) (slurm_rl_experiment_finding{{{SITE}}} == 1)",
                    "",
                ),
            ),
            stat(
                "Pairs of blocks",
                "Finished pairs: the same hours of two days, one day under each order.",
                (f"max by (cluster) (slurm_rl_experiment_pairs{{{SITE}}})", ""),
            ),
        ],
    ),
]
