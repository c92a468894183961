"""Job requests and offers as the JSON objects between sites, parsed with all bounds checked.

RequestRefused names the field that is unknown, missing, of a wrong type or out of bounds.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NoReturn, TypeGuard

from slurm_rl_plugin.domain.job_class import JobDescription
from slurm_rl_plugin.domain.site import NEEDS, JobRequest, SiteOffer
from slurm_rl_plugin.errors import RequestRefused

BAD = "400 Bad Request"
#: Deepest nesting of objects and lists; a job needs two.
DEEPEST = 4
#: Characters of the longest text.
LONGEST_TEXT = 200
MOST_PROCESSORS = 10_000_000
#: Seconds; ten years.
LONGEST_TIME = 3650 * 86400.0
TEXTS = ("partition", "qos", "name", "account", "user")
#: Fields of a request that may be forwarded; earlier releases do not know them.
FORWARDED = ("request_id", "hops", "time_to_live")
MOST_HOPS = 8
#: Seconds.
LONGEST_LIFE = 60.0
#: A text, perhaps without its end, or any character that is not a bracket.
_NO_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"?|[^][{}]', re.DOTALL)
_ID = re.compile(r"[A-Za-z0-9-]{8,64}")
#: All fields of a request; the desk reads FORMULA, and `forwarding_of` those of forwarding.
FORMULA = "formula"
FIELDS = (*TEXTS, "processors", "time_limit", "has_batch_script", "needs", FORMULA, *FORWARDED)
#: Bounds of the numbers of an offer; the latest start is in 9999, the last year of Python's clock.
_BOUNDS = {
    "expected_start": (0.0, 253_370_764_800.0),
    "utility": (0.0, 1.0),
    "price": (-sys.float_info.max, sys.float_info.max),
}
#: Maximum number of offers of other sites in a response.
MOST_FORWARDED = 64
#: A name that sbatch takes for one cluster.
_CLUSTER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
NOT_UNDERSTOOD = "502 Bad Gateway"


def strict_object(body: bytes) -> dict[str, Any]:
    """Parse an object in UTF-8; the caller bounds the length of the body."""
    if _depth(body) > DEEPEST:  # before the recursive parser
        raise RequestRefused(BAD, f"the JSON is nested deeper than {DEEPEST} levels.")
    try:
        found = json.loads(body.decode(), object_pairs_hook=_object, parse_constant=_no_number)
    except RequestRefused:
        raise
    except UnicodeDecodeError:
        raise RequestRefused(BAD, "the body is no UTF-8.") from None
    except (ValueError, RecursionError):  # also a number of thousands of digits
        raise RequestRefused(BAD, "the body is no JSON.") from None
    if not isinstance(found, dict):
        raise RequestRefused(BAD, "the body is no JSON object.")
    return found


def _depth(body: bytes) -> int:
    """Deepest nesting, without brackets inside texts."""
    steps = (1 if sign in b"[{" else -1 for sign in _NO_BRACKET.sub(b"", body))
    return max(accumulate(steps), default=0)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RequestRefused(BAD, "the JSON has a key twice.")
    return found


def _no_number(name: str) -> NoReturn:
    raise RequestRefused(BAD, f"{name} is no number in JSON.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarding:
    """How far a request may be forwarded."""

    request_id: str  #: the same at every site
    hops: int  #: how often it may still be forwarded
    time_to_live: float  #: seconds within which a response is expected

    def document(self) -> dict[str, Any]:
        """Its fields of a request; none without hops, so that any release reads the request."""
        return {name: getattr(self, name) for name in FORWARDED} if self.hops else {}


def forwarding_of(document: Mapping[str, Any]) -> Forwarding | None:
    """How far the request of an object may be forwarded; None without these fields."""
    if not any(name in document for name in FORWARDED):
        return None
    request_id, hops, life = (document.get(name) for name in FORWARDED)
    if not isinstance(request_id, str) or _ID.fullmatch(request_id) is None:
        raise _refusal("request_id", "is no text of 8 to 64 letters, digits and hyphens")
    if type(hops) is not int or not 0 <= hops <= MOST_HOPS:
        raise _refusal("hops", f"is no whole number from 0 to {MOST_HOPS}")
    if not _is_number(life) or not 0 < life <= LONGEST_LIFE:
        raise _refusal("time_to_live", f"is not above 0 and at most {LONGEST_LIFE:.0f} seconds")
    return Forwarding(request_id=request_id, hops=hops, time_to_live=float(life))


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
    """The request of an object; only `processors` is required."""
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
    if not _is_number(value):
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
    """A text without blanks, since sbatch prints a refused word like a message of slurmctld."""
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


def forwarded_offers(document: Mapping[str, Any]) -> list[SiteOffer]:
    """Valid offers of other sites in a response; the responding site vouches for them."""
    given = document.get("forwarded", [])
    found = []
    for each in given[:MOST_FORWARDED] if isinstance(given, list) else []:
        name = each.get("site") if isinstance(each, Mapping) else None
        if isinstance(name, str) and _CLUSTER.fullmatch(name) is not None:
            with suppress(RequestRefused):
                found.append(site_offer(each, name))
    return found


def site_offer(document: Mapping[str, Any], site: str) -> SiteOffer:
    """The offer of one site; unknown fields are ignored, as a later release may add them."""
    named = document.get("site")
    if named != site:
        shown = named[:LONGEST_TEXT] if isinstance(named, str) else named
        raise RequestRefused(NOT_UNDERSTOOD, f"answers for site {shown!r}: check its url.")
    found: dict[str, Any] = {name: document.get(name) for name in _BOUNDS}
    for name, (least, most) in _BOUNDS.items():
        if not _is_number(found[name]) or not least <= found[name] <= most:
            raise _unusable(name)
    processors = document.get("processors")
    if type(processors) is not int or not 1 <= processors <= MOST_PROCESSORS:
        raise _unusable("processors")
    published = document.get("published", False)  # earlier releases do not have the field
    if type(published) is not bool:
        raise _unusable("published")
    numbers = {name: float(value) for name, value in found.items()}
    return SiteOffer(site=site, processors=processors, published=published, **numbers)


def _unusable(field: str) -> RequestRefused:
    return RequestRefused(NOT_UNDERSTOOD, f"its answer has no {field} that can be used.")
