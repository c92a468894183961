"""Cuts the lines of an event file: when, which event, and the words of `sbatch`."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

#: The event that is a job.
SUBMISSION = "submit_batch_job"
_HEAD = re.compile(
    r"\s*(?:-dt\s+(?P<dt>\S+)\s+-e\s+(?P<e>\w+)|-e\s+(?P<e2>\w+)\s+-dt\s+(?P<dt2>\S+))\s*(?:\||$)",
    re.ASCII,
)
#: Words of the simulator itself, each with a value.
_OWN = ("-sim-walltime", "-jid", "-cancel-in")
_NUMBER = re.compile(r"-?\d{1,15}(\.\d*)?", re.ASCII)


class SimulatorEvent(NamedTuple):
    """One line.

    Attributes:
        time: seconds since the simulation began.
        kind: of the event.
        own: the simulator's own words and their values.
        words: of `sbatch`, its options before the script.
    """

    time: float
    kind: str
    own: dict[str, str]
    words: list[str]


def cut_event(line: str) -> SimulatorEvent:
    """The parts of a line.

    Raises:
        ValueError: it is no event; two words: the field, and what is wrong.
    """
    head = _HEAD.match(line)
    if head is None:
        raise ValueError("-dt", "the line is no event: mend or remove it")
    rest = line[head.end() :]
    try:
        words = shlex.split(rest) if "'" in rest or '"' in rest or "\\" in rest else rest.split()
    except ValueError:
        raise ValueError("sbatch", "its quotes do not match: mend or remove the line") from None
    own = {}
    for name in _OWN:
        if name in words:
            place = words.index(name)
            own[name] = words[place + 1] if place + 1 < len(words) else ""
            del words[place : place + 2]
    time = seconds_of("-dt", head["dt"] or head["dt2"])
    return SimulatorEvent(time, head["e"] or head["e2"], own, words)


def seconds_of(name: str, text: str) -> float:
    """The seconds behind a word of the simulator.

    Raises:
        ValueError: it is no number; two words: the field, and what is wrong.
    """
    if not _NUMBER.fullmatch(text):
        raise ValueError(name, f"{text!r} is no number: mend it")
    return float(text)
