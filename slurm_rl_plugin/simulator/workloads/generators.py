"""Synthetic logs: the M/M/N load of the 2008 paper and an EGEE-like bursty load."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import SHORT_JOB_RUN_TIME, FloatArray, IntArray


def _log_of(
    submit: FloatArray, run_time: FloatArray, account: IntArray, accounts: int, processors: int
) -> JobLog:
    jobs = len(submit)
    nothing = np.full(jobs, np.nan)
    names = tuple(f"vo{index}" for index in range(accounts))
    return JobLog(
        job_id=np.arange(1, jobs + 1),
        submit=submit,
        eligible=submit,
        start=nothing,
        run_time=run_time,
        processors=np.ones(jobs, dtype=np.int64),
        time_limit=nothing,
        account=account,
        user=account,
        partition=np.zeros(jobs, dtype=np.int64),
        accounts=names,
        users=names,
        partitions=("",),
        processors_available=processors,
        kind="swf",
    )


def mmn_log(
    rng: np.random.Generator,
    *,
    interactive: float = 0.4,
    load: float = 0.99,
    processors: int = 50,
    jobs: int = 6000,
    shares: tuple[float, ...] = (0.7, 0.2, 0.05, 0.05),
) -> JobLog:
    """Sequential jobs, Poisson arrivals, exponential run times (2008, section V.B, Table I).

    Args:
        interactive: probability p that a job runs less than 900 s; mu = -ln(1-p)/900.
        load: utilization rho; lambda = rho * processors * mu.
    """
    rate = -math.log(1.0 - interactive) / SHORT_JOB_RUN_TIME
    gaps = rng.exponential(1.0 / (load * processors * rate), size=jobs)
    run_time = np.maximum(rng.exponential(1.0 / rate, size=jobs), 1e-3)
    account = rng.choice(len(shares), size=jobs, p=shares)
    return _log_of(np.cumsum(gaps), run_time, account, len(shares), processors)


def egee_log(
    rng: np.random.Generator,
    *,
    interactive: float = 0.48,
    load: float = 0.44,
    processors: int = 81,
    jobs: int = 9500,
    burst: float = 14.0,
    shares: tuple[float, ...] = (0.53, 0.19, 0.10, 0.18),
) -> JobLog:
    """Sequential jobs in bursts of one account and class, with heavy-tailed batch run times.

    Interactive run times are exponential with mean 108 s below 900 s; batch run times lognormal
    with mean 35,000 s and median 18,300 s: the class sizes and means of 2011, Table 1, whose batch
    median of 15,615 s it has not.

    Args:
        interactive: probability that a burst is interactive.
        load: mean fraction of the processors in use.
        burst: mean number of jobs in a burst (geometric).
    """
    mean_short, mean_long, median_long = 108.0, 35_000.0, 18_300.0
    sigma = math.sqrt(2.0 * math.log(mean_long / median_long))
    work = interactive * mean_short + (1.0 - interactive) * mean_long
    sizes: list[int] = []
    while sum(sizes) < jobs:
        sizes.extend(rng.geometric(1.0 / burst, size=max(jobs // int(burst), 1)).tolist())
    burst_of_job = np.repeat(np.arange(len(sizes)), sizes)[:jobs]
    bursts = int(burst_of_job[-1]) + 1
    begin = np.cumsum(rng.exponential(burst * work / (load * processors), size=bursts))
    quick = rng.random(bursts) < interactive
    account = rng.choice(len(shares), size=bursts, p=shares)
    submit = begin[burst_of_job] + rng.exponential(5.0, size=jobs)
    short = np.minimum(rng.exponential(mean_short, size=jobs), SHORT_JOB_RUN_TIME - 1e-3)
    long = rng.lognormal(math.log(median_long), sigma, size=jobs)
    run_time = np.maximum(np.where(quick[burst_of_job], short, long), 1.0)
    order = np.argsort(submit, kind="stable")
    return _log_of(
        submit[order], run_time[order], account[burst_of_job][order], len(shares), processors
    )


_GENERATORS: dict[str, Callable[..., JobLog]] = {"mmn": mmn_log, "egee": egee_log}
_WHOLE_NUMBERS = ("jobs", "processors", "seed")
#: What each setting may be, and how to say it.
_RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "interactive": (lambda value: 0.0 <= value <= 1.0, "between 0 and 1"),
    "load": (lambda value: 0.0 < value < math.inf, "a number above 0"),
    "processors": (lambda value: value >= 1, "at least 1"),
    "jobs": (lambda value: value >= 1, "at least 1"),
    "burst": (lambda value: 1.0 <= value < math.inf, "a number of at least 1"),
    "seed": (lambda value: value >= 0, "at least 0"),
}


def is_generator_name(text: str) -> bool:
    """Whether a LOG argument names a generator, as in mmn:interactive=0.2,seed=7."""
    return text.partition(":")[0] in _GENERATORS


def generated_log(text: str) -> JobLog:
    """The log that a text such as `mmn:interactive=0.2,load=0.9,jobs=6000,seed=7` describes."""
    name, _, rest = text.partition(":")
    if name not in _GENERATORS:
        raise ConfigurationError(
            f"{text!r}: there is no generator {name!r}; give one of {', '.join(_GENERATORS)}."
        )
    settings: dict[str, float | int] = {}
    known = [key for key in _RANGES if key != "burst" or name == "egee"]
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        if key not in known:
            raise ConfigurationError(
                f"{text!r}: unknown setting {key!r}; {name} takes {', '.join(known)}."
            )
        settings[key] = _setting(text, key, value)
    rng = np.random.default_rng(int(settings.pop("seed", 1)))
    try:
        return _GENERATORS[name](rng, **settings)
    except (ValueError, ZeroDivisionError) as error:  # mmn has no rate for interactive 0 or 1
        raise ConfigurationError(f"{text!r} cannot be generated: {error}.") from None


def _setting(text: str, key: str, value: str) -> float | int:
    allowed, words = _RANGES[key]
    try:
        number = int(value) if key in _WHOLE_NUMBERS else float(value)
    except ValueError:
        raise ConfigurationError(f"{text!r}: {key} = {value!r} is no number.") from None
    if not allowed(number):
        raise ConfigurationError(f"{text!r}: {key} = {value} must be {words}.")
    return number
