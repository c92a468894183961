"""The dashboard of the forecast service: whether its forecasts are calibrated."""

from __future__ import annotations

from panels import SITE, Row, lines, stat, steps


def of_group(metric: str, by: str) -> str:
    """A score of the forecasts of the last four weeks, by class, partition or horizon."""
    return f'max by (cluster, group) ({metric}{{{SITE}, by="{by}"}})'


def of_all(metric: str) -> str:
    """A score of all forecasts of the last four weeks."""
    return f'max by (cluster) ({metric}{{{SITE}, by="all"}})'


STARTS: list[Row] = [
    (
        "Are the forecasts calibrated?",
        [
            stat(
                "In the 90 % band",
                "Fraction of the waits of the last four weeks inside their 90 % band.",
                (of_all("slurm_rl_forecast_coverage_90"), ""),
                "percentunit",
                thresholds=steps((None, "red"), (0.8, "orange"), (0.85, "green"), (0.97, "orange")),
            ),
            stat(
                "Within a factor of 2",
                "Fraction of the waits within a factor of 2 of the forecast median.",
                (of_all("slurm_rl_forecast_within_factor_2"), ""),
                "percentunit",
            ),
            stat(
                "Within a factor of 3",
                "Fraction of the waits within a factor of 3 of the forecast median.",
                (of_all("slurm_rl_forecast_within_factor_3"), ""),
                "percentunit",
            ),
            stat(
                "Forecasts scored",
                "Forecasts of the last four weeks whose job has started.",
                (f"max by (cluster) (slurm_rl_forecasts_started{{{SITE}}})", ""),
            ),
            stat(
                "Age of the queue",
                "Time since the daemon read the queue of the last forecast.",
                (f"max by (cluster) (slurm_rl_forecast_age_seconds{{{SITE}}})", ""),
                "s",
                thresholds=steps((None, "green"), (300, "orange"), (900, "red")),
            ),
            stat(
                "Duration of a forecast",
                "Duration of the last forecast of the whole queue.",
                (f"max by (cluster) (slurm_rl_forecast_seconds{{{SITE}}})", ""),
                "s",
            ),
        ],
    ),
    (
        "For which jobs?",
        [
            lines(
                "In the 90 % band, by class",
                "Fraction of the waits of the last four weeks inside their 90 % band.",
                "percentunit",
                (of_group("slurm_rl_forecast_coverage_90", "class"), "{{group}}"),
                line_at=0.9,
                most=1.0,
            ),
            lines(
                "In the 90 % band, by partition",
                "Fraction of the waits of the last four weeks inside their 90 % band.",
                "percentunit",
                (of_group("slurm_rl_forecast_coverage_90", "partition"), "{{group}}"),
                line_at=0.9,
                most=1.0,
            ),
            lines(
                "Width of the 90 % band, by horizon",
                "Mean of log10(high / low); 1: a factor of 10 between the ends.",
                "none",
                (of_group("slurm_rl_forecast_log_width_90", "horizon"), "{{group}}"),
            ),
            lines(
                "Error of each source",
                "Median of |log10(forecast / true wait)|; 0.3: a factor of 2.",
                "none",
                (
                    "max by (cluster, source) "
                    f"(slurm_rl_forecast_source_median_log_error{{{SITE}}})",
                    "{{source}}",
                ),
            ),
        ],
    ),
]
