"""The health dashboard: how the daemon itself is."""

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
    """Duration that 95 % of what the last minutes observed stayed below."""
    by = ", ".join(("cluster", *labels, "le"))
    return (
        f"histogram_quantile(0.95, sum by ({by}) "
        f"(rate({metric}_bucket{{{SITE}}}[$__rate_interval])))"
    )


MODES = states("Mode", "1: the daemon is in this mode.", "slurm_rl_mode")
HEALTH: list[Row] = [
    (
        "Does it run as configured?",
        [
            MODE,
            stat(
                "Configured mode",
                "What the configuration wants.",
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
                "Refused: the old configuration and model are in force.",
                (f"min by (cluster) (slurm_rl_last_reload_successful{{{SITE}}})", ""),
                thresholds=steps((None, "red"), (1, "green")),
                words={"0": "REFUSED", "1": "taken over"},
            ),
            stat(
                "Last cycle",
                "A fallback is a cycle that worked.",
                (f"min by (cluster) (slurm_rl_up{{{SITE}}})", ""),
                thresholds=steps((None, "red"), (1, "green")),
                words={"0": "FAILED", "1": "worked"},
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
                "Releases and adapter.",
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
                "Failed ones and disturbances by reason.",
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
                "95 % stay below. A decision past inference_deadline (2 s) is thrown away.",
                "s",
                (p95("slurm_rl_cycle_duration_seconds", "phase"), "{{phase}} {{cluster}}"),
            ),
            lines(
                "Until a new job has its place",
                "95 % stay below; from when the job could start.",
                "s",
                (p95("slurm_rl_place_seconds"), "{{cluster}}"),
            ),
        ],
    ),
    (
        "What does it cost Slurm?",
        [
            lines(
                "Duration of calls",
                "95 % stay below. At timeout (10 s) a call is killed and the cycle fails.",
                "s",
                (
                    p95("slurm_rl_batch_system_call_duration_seconds", "call"),
                    "{{call}} {{cluster}}",
                ),
            ),
            lines(
                "Time in calls",
                "Seconds of calls in a second; busy_share bounds it.",
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
        "What does it cost the head node?",
        [
            lines(
                "Processors in use",
                "By the daemon, without the commands that it calls.",
                "none",
                (
                    f"rate(slurm_rl_process_cpu_seconds_total{{{SITE}}}[$__rate_interval])",
                    "{{instance}}",
                ),
            ),
            lines(
                "Memory",
                "Resident.",
                "bytes",
                (f"slurm_rl_process_resident_memory_bytes{{{SITE}}}", "{{instance}}"),
            ),
        ],
    ),
]
