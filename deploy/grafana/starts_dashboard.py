"""The dashboard of the forecast service: whether its bands hold what they say."""

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
        "Do the forecasts hold?",
        [
            stat(
                "In the 90 % band",
                "Part of the waits of the last four weeks inside their 90 % band.",
                (of_all("slurm_rl_forecast_coverage_90"), ""),
                "percentunit",
                thresholds=steps((None, "red"), (0.8, "orange"), (0.85, "green"), (0.97, "orange")),
            ),
            stat(
                "Within a factor of 2",
                "Part of the waits within a factor of 2 of the median that was told.",
                (of_all("slurm_rl_forecast_within_factor_2"), ""),
                "percentunit",
            ),
            stat(
                "Within a factor of 3",
                "Part of the waits within a factor of 3 of the median that was told.",
                (of_all("slurm_rl_forecast_within_factor_3"), ""),
                "percentunit",
            ),
            stat(
                "Forecasts scored",
                "Forecasts of the last four weeks whose job has started.",
                (f"max by (cluster) (slurm_rl_forecasts_started{{{SITE}}})", ""),
            ),
            stat(
                "Age of the look",
                "Since the daemon looked at the queue that was foretold last.",
                (f"max by (cluster) (slurm_rl_forecast_age_seconds{{{SITE}}})", ""),
                "s",
                thresholds=steps((None, "green"), (300, "orange"), (900, "red")),
            ),
            stat(
                "Time of a forecast",
                "That a forecast of the whole queue took.",
                (f"max by (cluster) (slurm_rl_forecast_seconds{{{SITE}}})", ""),
                "s",
            ),
        ],
    ),
    (
        "For whom?",
        [
            lines(
                "In the 90 % band, by class",
                "Part of the waits of the last four weeks inside their 90 % band.",
                "percentunit",
                (of_group("slurm_rl_forecast_coverage_90", "class"), "{{group}}"),
                line_at=0.9,
                most=1.0,
            ),
            lines(
                "In the 90 % band, by partition",
                "Part of the waits of the last four weeks inside their 90 % band.",
                "percentunit",
                (of_group("slurm_rl_forecast_coverage_90", "partition"), "{{group}}"),
                line_at=0.9,
                most=1.0,
            ),
            lines(
                "Width of the 90 % band, by horizon",
                "Mean of log10(high / low): 1 is a factor of 10 from end to end.",
                "none",
                (of_group("slurm_rl_forecast_log_width_90", "horizon"), "{{group}}"),
            ),
            lines(
                "Error of each source",
                "Median of |log10(foretold / true wait)| where it spoke: .3 is a factor of 2.",
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
