"""What the forecast service tells Prometheus: how good its forecasts have been."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from slurm_rl_plugin.metrics.queue_families import gauge, number

#: Figure of `Scores` -> name and meaning of its metric.
_FIGURES = {
    "median_error": ("median_log_error", "median of |log10(foretold / true wait)|"),
    "square_error": ("square_log_error", "mean square of log10(foretold / true wait)"),
    "within_2": ("within_factor_2", "part of waits within a factor of 2 of the median"),
    "within_3": ("within_factor_3", "part of waits within a factor of 3 of the median"),
    "coverage_50": ("coverage_50", "part of waits inside the 50 % band"),
    "coverage_90": ("coverage_90", "part of waits inside the 90 % band"),
    "width_90": ("log_width_90", "mean log10(high / low) of the 90 % band"),
    "pinball": ("pinball_loss", "pinball loss in log10 of the wait"),
}
_GROUPS = ("class", "partition", "horizon")


class ForecastFamilies(Collector):
    """Families of one document of scores.

    Args:
        scores: see `scored_forecasts.scores_document`.
        age: seconds since the look that was foretold last; nan for none.
        seconds: that the last forecast of the whole queue took; nan for none.
    """

    def __init__(self, scores: Mapping[str, Any], age: float, seconds: float) -> None:
        self._scores, self._age, self._seconds = scores, age, seconds

    def collect(self) -> Iterator[Metric]:
        """Every family, of the last four weeks."""
        scores = self._scores
        given, started = float(scores["given"]), float(scores["started"])
        yield number("forecasts_given", "forecasts kept in the last four weeks", given)
        yield number("forecasts_started", "of them those whose job has started", started)
        yield number("forecast_age_seconds", "age of the look that was foretold last", self._age)
        yield number("forecast_seconds", "that a forecast of the whole queue took", self._seconds)
        groups = {"all": {"all": scores["all"]}} if "all" in scores else {}
        groups |= {each: scores[each] for each in _GROUPS if each in scores}
        for figure, (name, meaning) in _FIGURES.items():
            rows = [
                ((by, label), float(found[figure]))
                for by, group in groups.items()
                for label, found in group.items()
            ]
            yield gauge(f"forecast_{name}", meaning, ("by", "group"), rows)
        yield gauge(
            "forecast_source_median_log_error",
            "median of |log10(foretold / true wait)| of a source where it spoke",
            ("source",),
            [
                ((source,), float(found["median_error"]))
                for source, found in scores.get("sources", {}).items()
            ],
        )


def forecast_metrics(scores: Mapping[str, Any], age: float, seconds: float) -> tuple[bytes, str]:
    """The text that Prometheus scrapes, and its content type."""
    registry = CollectorRegistry()
    registry.register(ForecastFamilies(scores, age, seconds))
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4
