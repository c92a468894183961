"""The health dashboard: the daemon itself."""

from __future__ import annotations

from panels import (
    FALLBACK,
    LAST_SUCCESS,
    MODE,
    SITE,
    Row,
    a_minute,
    lines,
    stat,
    states,
    steps,
    table,
)


def p95(metric: str, *labels: str) -> str:
    """95th percentile of the durations of the last minutes."""
    by = ", ".join(("cluster", *labels, "le"))
    return (
        f"histogram_quantile(0.95, sum by ({by}) "
        f"(rate({metric}_bucket{{{SITE}}}[$__rate_interval])))"
    )


MODES = states("Mode", "Colored: the mode of the daemon.", "slurm_rl_mode")
HEALTH: list[Row] = [
    (
        "Does it run as configured?",
        [
            MODE,
            stat(
                "Configured mode",
                "The mode in the configuration.",
                (
                    "max by (cluster, slurm_rl_configured_mode) "
                    f"(slurm_rl_configured_mode{{{SITE}}} == 1)",
                    "{{slurm_rl_configured_mode}}",
                ),
                names=True,
            ),
            LAST_SUCCESS,
            FALLBACK,
            stat(
                "Last reload",
                "REFUSED: the old configuration and model are still in force.",
                (f"min by (cluster) (slurm_rl_last_reload_successful{{{SITE}}})", ""),
                thresholds=steps((None, "red"), (1, "green")),
                words={"0": "REFUSED", "1": "applied"},
            ),
            stat(
                "Last cycle",
                "A cycle in fallback counts as good.",
                (f"min by (cluster) (slurm_rl_up{{{SITE}}})", ""),
                thresholds=steps((None, "red"), (1, "green")),
                words={"0": "FAILED", "1": "good"},
            ),
            MODES,
            lines(
                "Fallback",
                "1: the model is not used.",
                "none",
                (f"max by (cluster) (slurm_rl_fallback_active{{{SITE}}})", "fallback {{cluster}}"),
                most=1,
            ),
            table("Model", "The model in use.", (f"slurm_rl_model_info{{{SITE}}}", ""), height=4),
            table(
                "Program",
                "Versions and adapter.",
                (f"slurm_rl_build_info{{{SITE}}}", ""),
                height=4,
            ),
        ],
    ),
    (
        "Does it finish its cycles?",
        [
            lines(
                "Cycles, failed cycles and disturbances a minute",
                "Failures and disturbances by reason.",
                "none",
                (
                    f"60 * sum by (cluster) "
                    f"(rate(slurm_rl_cycles_total{{{SITE}}}[$__rate_interval]))",
                    "cycles {{cluster}}",
                ),
                (
                    a_minute("slurm_rl_cycle_failures_total", "reason"),
                    "failed: {{reason}} {{cluster}}",
                ),
                (
                    a_minute("slurm_rl_disturbances_total", "reason"),
                    "disturbance: {{reason}} {{cluster}}",
                ),
                (
                    a_minute("slurm_rl_requests_changed_total", "what"),
                    "request changed: {{what}} {{cluster}}",
                ),
            ),
            lines(
                "Duration of the phases",
                "95th percentile. A decision later than inference_deadline (2 s) is discarded.",
                "s",
                (p95("slurm_rl_cycle_duration_seconds", "phase"), "{{phase}} {{cluster}}"),
            ),
            lines(
                "Time until a new job has its place",
                "95th percentile, from the time when the job can start.",
                "s",
                (p95("slurm_rl_place_seconds"), "{{cluster}}"),
            ),
        ],
    ),
    (
        "What load does it put on Slurm?",
        [
            lines(
                "Duration of calls",
                "95th percentile. At timeout (10 s) a call is killed and the cycle fails.",
                "s",
                (
                    p95("slurm_rl_batch_system_call_duration_seconds", "call"),
                    "{{call}} {{cluster}}",
                ),
            ),
            lines(
                "Time in calls",
                "Fraction of the time spent in calls; busy_share bounds it.",
                "percentunit",
                (
                    "sum by (cluster, call) (rate(slurm_rl_batch_system_call_duration_seconds_sum"
                    f"{{{SITE}}}[$__rate_interval]))",
                    "{{call}} {{cluster}}",
                ),
                stacked=True,
            ),
        ],
    ),
    (
        "What load does it put on the head node?",
        [
            lines(
                "Processors in use",
                "By the daemon, without its commands.",
                "none",
                (
                    f"rate(slurm_rl_process_cpu_seconds_total{{{SITE}}}[$__rate_interval])",
                    "{{instance}}",
                ),
            ),
            lines(
                "Memory",
                "Resident memory.",
                "bytes",
                (f"slurm_rl_process_resident_memory_bytes{{{SITE}}}", "{{instance}}"),
            ),
        ],
    ),
]
