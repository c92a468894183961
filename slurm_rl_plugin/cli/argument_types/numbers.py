"""Numbers on the command line, as types of argparse."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

#: What compiled code and generators of random numbers take; more is a slip of the hand.
LARGEST = 2**31 - 1


def whole_number(least: int, most: int = LARGEST) -> Callable[[str], int]:
    """The type of a whole number from `least` to `most`, by default what compiled code takes."""

    def parsed(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}")
        if value > most:
            raise argparse.ArgumentTypeError(f"{text!r} is too large: give {most} at most")
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


def seconds_up_to(most: float) -> Callable[[str], float]:
    """The type of a number of seconds from 0 to `most`, seconds."""

    def parsed(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0 to {most:g}")
        return value

    return parsed


at_least_one = whole_number(1)
