"""How long a job will run, from its request and the runs before it: a distribution, not a number.

A prediction is linear in what is known: a logistic regression for each of SHORT_RUN_TIMES and a
linear one for the logarithm of the run time. What matters for slowdown is how likely a job is to
end at once, which no single predicted run time tells.

Elementwise, plain numpy style: the simulator compiles these very lines for one job, the head node
runs them on columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.errors import ModelSchemaMismatch
from slurm_rl_plugin.features.history.run_history import INVERSE, LOG_RUN, SHORT, SHORT_RUN_TIMES
from slurm_rl_plugin.features.history.run_spread import BOUNDS
from slurm_rl_plugin.features.scales import SECONDS_SPAN, TEN, log_processors, log_seconds
from slurm_rl_plugin.units import FloatArray

_SHARES = 2 * len(SHORT_RUN_TIMES)
#: What one row of history tells.
ROW_FACTS = _SHARES + 3
#: What a prediction is made of: 1, the request (2), the user's row and the template's from these
#: places on, whether a run of either is known (2).
USER_FACTS = 3
TEMPLATE_FACTS = USER_FACTS + ROW_FACTS
USER_KNOWN = TEMPLATE_FACTS + ROW_FACTS
TEMPLATE_KNOWN = USER_KNOWN + 1
KNOWN_FACTS = TEMPLATE_KNOWN + 1
#: What it gives: a logit for each of SHORT_RUN_TIMES, then log10(1 + run time).
PREDICTED = len(SHORT_RUN_TIMES) + 1
#: Entries of a model's metadata that hold the weights: of the prediction, and of how it is spread.
PREDICTION_ENTRY, SPREAD_ENTRY = "prediction", "run_time_spread"
#: Logit of one in a thousand: that a job which is taken at its word ends before its time.
_HARDLY_EVER = -6.9
#: Keeps the log odds of a share of 0 or 1 finite.
_NEVER_CERTAIN = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimePrediction:
    """Weights of what is known; see `fill_known_facts`.

    Attributes:
        weights: shape [PREDICTED, KNOWN_FACTS].
        spread: of the log odds of a run time below each of `run_spread.BOUNDS`, shape
            [len(BOUNDS), KNOWN_FACTS]; None where only `weights` are known.
    """

    weights: FloatArray
    spread: FloatArray | None = None

    def to_json(self) -> str:
        """The weights as a model's metadata hold them."""
        return json.dumps(self.weights.tolist())

    def entries(self) -> dict[str, str]:
        """All of it as a model's metadata hold it."""
        told = {PREDICTION_ENTRY: self.to_json()}
        if self.spread is not None:
            told[SPREAD_ENTRY] = json.dumps(self.spread.tolist())
        return told

    @classmethod
    def untrained(cls) -> RunTimePrediction:
        """What the template's own runs say, its fast and slow means counting alike."""
        weights = np.zeros((PREDICTED, KNOWN_FACTS))
        first = TEMPLATE_FACTS
        for place in range(len(SHORT_RUN_TIMES)):
            weights[place, first + 2 * place : first + 2 * place + 2] = 5.0 / 2.0
        weights[-1, first + _SHARES : first + _SHARES + 2] = 6.0 / 2.0
        return cls(weights=weights)


def prediction_in(path: Path, metadata: Mapping[str, str]) -> RunTimePrediction | None:
    """The prediction that a model was trained with; None for one that looks at no past runs.

    Raises:
        ModelSchemaMismatch: it is none that this release computes.
    """
    text, spread = metadata.get(PREDICTION_ENTRY), metadata.get(SPREAD_ENTRY)
    if text is None:
        return None
    return RunTimePrediction(
        weights=_table(path, text, PREDICTED),
        spread=None if spread is None else _table(path, spread, len(BOUNDS)),
    )


def _table(path: Path, text: str, rows: int) -> FloatArray:
    try:
        weights = np.array(json.loads(text), dtype=np.float64)
    except (ValueError, TypeError, OverflowError, RecursionError):
        weights = np.empty(0)
    if weights.shape != (rows, KNOWN_FACTS) or not np.isfinite(weights).all():
        raise ModelSchemaMismatch(
            f"model {path} holds a run-time prediction that is no table of {rows} x "
            f"{KNOWN_FACTS} numbers: retrain it."
        )
    return weights


def log_odds(share: Any) -> Any:
    """Log odds of a share in [0, 1], kept finite."""
    return np.log((share + _NEVER_CERTAIN) / (1.0 + _NEVER_CERTAIN - share))


def fill_known_facts(
    facts: Any,
    time_limit: Any,
    processors: Any,
    user: Any,
    template: Any,
    user_known: Any,
    template_known: Any,
) -> None:
    """What a prediction is made of, each near [-1, 1].

    Args:
        facts: filled; shape [KNOWN_FACTS] for one job or [KNOWN_FACTS, n] for columns.
        time_limit: requested seconds.
        processors: requested.
        user: the user's row of history (`history.run_history`) or who stands in for him, shape
            [HISTORY] or [HISTORY, n].
        template: the same for the template.
        user_known: 1.0 where a run of the user has been seen, else 0.0.
        template_known: the same for the template.
    """
    facts[0] = 1.0
    facts[1], facts[2] = request_facts(time_limit, processors)
    fill_row_facts(facts[USER_FACTS : USER_FACTS + ROW_FACTS], user)
    fill_row_facts(facts[TEMPLATE_FACTS : TEMPLATE_FACTS + ROW_FACTS], template)
    facts[USER_KNOWN] = user_known
    facts[TEMPLATE_KNOWN] = template_known


def request_facts(time_limit: Any, processors: Any) -> tuple[Any, Any]:
    """What the request tells, each near [-1, 1]: the facts from place 1 to USER_FACTS."""
    return log_seconds(time_limit), log_processors(processors)


def fill_row_facts(facts: Any, row: Any) -> None:
    """What one row of history tells, each near [-1, 1].

    Args:
        facts: filled; shape [ROW_FACTS] or [ROW_FACTS, n].
        row: shape [HISTORY] or [HISTORY, n].
    """
    for share in range(_SHARES):
        facts[share] = log_odds(row[SHORT + share]) / 5.0
    facts[_SHARES] = row[LOG_RUN] / SECONDS_SPAN
    facts[_SHARES + 1] = row[LOG_RUN + 1] / SECONDS_SPAN
    facts[_SHARES + 2] = np.log(row[INVERSE]) / (6.0 * TEN)


def history_features(
    very_short: Any, short: Any, hours: Any, log_run: Any, time_limit: Any, known: Any
) -> tuple[Any, ...]:
    """Features of a prediction, in the order of the `site` schema.

    Between two of SHORT_RUN_TIMES a run counts as what such runs are on large machines, seconds:
    20, 350, 3200 (for its length) or 20, 300, 2500 (for the inverse of its length).

    Args:
        very_short: predicted logit of a run time below SHORT_RUN_TIMES[0].
        short: the same for SHORT_RUN_TIMES[1].
        hours: the same for SHORT_RUN_TIMES[2].
        log_run: predicted log10(1 + run time).
        time_limit: requested seconds.
        known: 1.0 where a run of the template has been seen, else 0.0.
    """
    first = 1.0 / (1.0 + np.exp(-very_short))
    second = np.maximum(first, 1.0 / (1.0 + np.exp(-short)))
    third = np.maximum(second, 1.0 / (1.0 + np.exp(-hours)))
    longest = SHORT_RUN_TIMES[2] + 0.5 * np.maximum(time_limit - SHORT_RUN_TIMES[2], 0.0)
    expected = (
        20.0 * first
        + 350.0 * (second - first)
        + 3200.0 * (third - second)
        + longest * (1.0 - third)
    )
    rate = (
        first / 20.0
        + (second - first) / 300.0
        + (third - second) / 2500.0
        + (1.0 - third) / longest
    )
    return (
        log_run / SECONDS_SPAN,
        first,
        second,
        np.log(rate) / (4.0 * TEN) + 1.25,
        log_seconds(expected),
        known,
    )


def at_its_word(time_limit: Any) -> tuple[Any, ...]:
    """What stands for a prediction of a request for which past runs do not speak.

    It runs as long as it asks for; the outputs of a prediction, PREDICTED of them.

    Args:
        time_limit: requested seconds.
    """
    hardly = _HARDLY_EVER + 0.0 * time_limit
    return (hardly, hardly, hardly, np.log(1.0 + time_limit) / TEN)


def alike_features(pending_alike: Any, running_alike: Any) -> tuple[Any, ...]:
    """Features of how many jobs of the same template there are, after those of the prediction.

    Where many wait and none runs, one of them tells what the others are: it is worth trying.

    Args:
        pending_alike: pending jobs of the job's template, itself included.
        running_alike: running jobs of the template.
    """
    many = np.log(1.0 * pending_alike) / (3.0 * TEN)
    return (many, many * (running_alike == 0))
