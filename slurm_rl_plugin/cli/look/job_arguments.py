"""Job numbers and lists of names as Slurm's own commands take them."""

from __future__ import annotations

import argparse
import re

#: A job, a job array, one task of it or a list of tasks in brackets, or a component.
_JOB = re.compile(r"(?P<number>\d{1,10})(?:_(?:\d+|\[[\d,%:-]+\])|\+\d+)?")


def job_number(text: str) -> int:
    """The number of a job, of the whole for a part of one: `123`, `123_4`, `123_[5-7]`, `123+1`.

    Raises:
        argparse.ArgumentTypeError: another form.
    """
    found = _JOB.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no job: give a number, ARRAY_TASK or JOB+COMPONENT"
        )
    return int(found["number"])


def job_numbers(text: str) -> frozenset[int]:
    """Numbers of jobs from a list with commas.

    Raises:
        argparse.ArgumentTypeError: one of them has another form.
    """
    return frozenset(job_number(each) for each in re.split(r",(?![^\[]*\])", text))


def names(text: str) -> frozenset[str]:
    """Names from a list with commas."""
    return frozenset(each for each in text.split(",") if each)
