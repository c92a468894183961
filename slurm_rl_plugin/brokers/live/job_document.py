"""A job request as the JSON object that sites are sent, and back with every bound checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from slurm_rl_plugin.brokers.live.forwarding import FIELDS as FORWARDED
from slurm_rl_plugin.brokers.live.strict_json import BAD
from slurm_rl_plugin.domain.job_class import JobDescription
from slurm_rl_plugin.domain.site import NEEDS, JobRequest
from slurm_rl_plugin.errors import RequestRefused

#: Characters of the longest text.
LONGEST_TEXT = 200
MOST_PROCESSORS = 10_000_000
#: Seconds; ten years.
LONGEST_TIME = 3650 * 86400.0
TEXTS = ("partition", "qos", "name", "account", "user")
#: All that an object may have; FORMULA is read by who values offers, and how far it may go by
#: `forwarding`.
FORMULA = "formula"
FIELDS = (*TEXTS, "processors", "time_limit", "has_batch_script", "needs", FORMULA, *FORWARDED)


def job_document(request: JobRequest) -> dict[str, Any]:
    """The object that `job_request` reads."""
    job = request.job
    return {
        **{name: getattr(job, name) for name in TEXTS},
        "processors": request.processors,
        "time_limit": None if math.isnan(job.time_limit) else job.time_limit,
        "has_batch_script": job.has_batch_script,
        "needs": dict(request.needs),
    }


def job_request(document: Mapping[str, Any]) -> JobRequest:
    """The request that an object describes; only `processors` must be there.

    Raises:
        RequestRefused: a field is unknown, missing, of another kind or out of bounds; names it.
    """
    unknown = [name for name in document if name not in FIELDS]
    if unknown:
        raise _refusal(_shown(unknown[0]), f"is unknown: give {', '.join(FIELDS)}")
    processors = document.get("processors")
    if type(processors) is not int or not 1 <= processors <= MOST_PROCESSORS:
        raise _refusal("processors", f"is no whole number from 1 to {MOST_PROCESSORS}")
    script = document.get("has_batch_script", True)
    if script is not None and type(script) is not bool:
        raise _refusal("has_batch_script", "is not true, false or null")
    texts = {name: _text(name, document.get(name, "")) for name in TEXTS}
    _word("partition", texts["partition"])
    return JobRequest(
        job=JobDescription(
            **texts, time_limit=_time_limit(document.get("time_limit")), has_batch_script=script
        ),
        processors=processors,
        needs=_needs(document.get("needs", {})),
    )


def _time_limit(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refusal("time_limit", "is no number of seconds, nor null")
    if not 0 < value <= LONGEST_TIME:
        raise _refusal("time_limit", f"is not above 0 and at most {LONGEST_TIME:.0f} s")
    return float(value)


def _needs(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise _refusal("needs", "is no object")
    for name in value:
        if name not in NEEDS:
            raise _refusal(f"needs.{_shown(name)}", f"is unknown: give {', '.join(NEEDS)}")
    return tuple(sorted((name, _word(f"needs.{name}", each)) for name, each in value.items()))


def _word(name: str, value: Any) -> str:
    """No blanks: sbatch shows what it refuses, as if slurmctld had said `Broken pipe` itself."""
    if " " in (text := _text(name, value)):
        raise _refusal(name, "has a blank")
    return text


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise _refusal(name, f"is no text of at most {LONGEST_TEXT} characters")
    if not value.isprintable():
        raise _refusal(name, "has a character that cannot be printed")
    return value


def _shown(name: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in name[:40])


def _refusal(field: str, problem: str) -> RequestRefused:
    return RequestRefused(BAD, f"{field} {problem}.")
