"""Feature schemas: the names, order and digest that a model and the head node must agree on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSchema:
    """An ordered list of features.

    Attributes:
        name: "site" or "reactive-grid".
        version: raised by hand whenever the meaning of a feature changes.
        queue: names of the queue features, in column order.
        static_jobs: names of job features that do not change while the job waits.
        dynamic_jobs: names of job features that change with time; they follow the static ones.
        history_jobs: names of job features made of past runs and of jobs alike; they come last.
    """

    name: str
    version: int
    queue: tuple[str, ...]
    static_jobs: tuple[str, ...]
    dynamic_jobs: tuple[str, ...]
    history_jobs: tuple[str, ...] = ()

    @property
    def jobs(self) -> tuple[str, ...]:
        """Names of all job features, in column order."""
        return self.static_jobs + self.dynamic_jobs + self.history_jobs

    @property
    def digest(self) -> str:
        """sha256 over name, version and feature names, hexadecimal."""
        text = "\n".join([self.name, str(self.version), *self.queue, "--", *self.jobs])
        return hashlib.sha256(text.encode()).hexdigest()
