"""A power cut after some steps of a training."""

from __future__ import annotations

from collections.abc import Callable


class Interrupted(Exception):
    """The power is cut."""


def stop_at(last: int) -> Callable[[int, float], None]:
    """Progress of a training that is interrupted after a step."""

    def progress(step: int, _best: float) -> None:
        if step == last:
            raise Interrupted

    return progress
