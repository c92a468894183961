"""What a site publishes of itself: the long-term utility it expects of one more job of each kind.

The site-level utility function of 2008, section II.C: matchmakers rank sites by these indices and
need not know how a site orders its queue.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_rl_plugin.errors import ConfigurationError

#: Raised whenever the meaning of the document changes.
VERSION = 1
JOB_CLASSES = ("interactive", "batch")
#: Longest document that is read, characters: some ten thousand accounts.
LONGEST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedUtilities:
    """What one more job of each class and account is worth to a site, as it publishes it.

    Attributes:
        site: its name.
        time: of the queue that it speaks of, seconds since the epoch.
        valid_for: seconds after `time` from which on nobody should use it.
        model: sha256 of the model, hexadecimal.
        utilities: job class -> account -> utility in [0, 1]; at 0.5 the site's objective neither
            gains nor loses by such a job.
    """

    site: str
    time: float
    valid_for: float
    model: str
    utilities: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def fresh_at(self, now: float) -> bool:
        """Whether it may still be used; a time to come is no fresher than one long past."""
        return abs(now - self.time) <= self.valid_for

    def of(self, job_class: str, account: str) -> float | None:
        """The utility of one more such job; None where the site says nothing of it."""
        return self.utilities.get(job_class, {}).get(account)

    def document(self) -> dict[str, Any]:
        """The publication as a JSON object, which `from_json` reads."""
        return {
            "version": VERSION,
            "site": self.site,
            "time": self.time,
            "valid_for": self.valid_for,
            "model": self.model,
            "utilities": {kind: dict(each) for kind, each in self.utilities.items()},
        }

    @classmethod
    def from_json(cls, text: str) -> PublishedUtilities:
        """Read a document that another site wrote.

        Raises:
            ConfigurationError: it is too long, no such document, or of another version.
        """
        if len(text) > LONGEST:
            raise ConfigurationError(
                f"published utilities of {len(text)} characters are too long: "
                f"at most {LONGEST} are read."
            )
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise _fault("the text", "is no JSON document") from None
        if not isinstance(document, dict):
            raise _fault("the document", "is no object")
        if document.get("version") != VERSION or isinstance(document["version"], bool):
            raise _fault("version", f"is not {VERSION}, the only one known here")
        valid_for = _number(document, "valid_for")
        if valid_for <= 0:
            raise _fault("valid_for", "is not greater than 0")
        return cls(
            site=_text(document, "site"),
            time=_number(document, "time"),
            valid_for=valid_for,
            model=_text(document, "model"),
            utilities=_utilities(document.get("utilities")),
        )


def _fault(name: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"published utilities: {name} {problem}: ask the site to publish them again."
    )


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise _fault(name, "is no text")
    return value


def _number(document: Mapping[str, Any], name: str) -> float:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _fault(name, "is no number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _fault(name, "is not finite")
    return number


def _utilities(found: Any) -> dict[str, dict[str, float]]:
    if not isinstance(found, dict) or not set(found) <= set(JOB_CLASSES):
        raise _fault("utilities", f"does not map {' and '.join(JOB_CLASSES)} to accounts")
    kept: dict[str, dict[str, float]] = {}
    for kind, accounts in found.items():
        if not isinstance(accounts, dict):
            raise _fault(f"utilities of {kind}", "are no object")
        kept[kind] = {}
        for account in accounts:
            value = _number(accounts, account)
            if not 0.0 <= value <= 1.0:
                raise _fault(f"utility of {kind} jobs of {account}", "lies outside [0, 1]")
            kept[kind][account] = value
    return kept
