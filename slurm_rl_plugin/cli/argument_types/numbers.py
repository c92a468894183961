"""Numbers on the command line, as types of argparse."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def whole_number(least: int) -> Callable[[str], int]:
    """The type of a whole number of at least `least`."""

    def parsed(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}")
        return value

    return parsed


def number_above_zero(what: str) -> Callable[[str], float]:
    """The type of a finite number above 0, which a refusal calls `what`: `number of seconds`."""

    def parsed(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value < math.inf:
            raise argparse.ArgumentTypeError(f"{text!r} is no {what} above 0")
        return value

    return parsed


at_least_one = whole_number(1)
