"""The process of a service: its log on standard error, its signs of life, and its end."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import IO

from slurm_rl_plugin.hook.daemon.signals import SignalRequest, sd_notify
from slurm_rl_plugin.readable import printable

#: Characters of the longest line.
LONGEST_LINE = 4000
#: Seconds between signs of life to systemd, and between two times that `work` is done.
_SIGN_OF_LIFE = 5.0


class OneLineFormatter(logging.Formatter):
    """A record as one line; those of a traceback follow it, indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is inherited
        """The record on one line of printable characters, at most LONGEST_LINE of them."""
        return _line(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802 - the name is inherited
        """The traceback, indented, so that no line of it can be taken for a record."""
        text = super().formatException(ei)  # type: ignore[arg-type] # as logging gives it
        return "\n".join(f"  {_line(line)}" for line in text.split("\n"))


def log_to_standard_error(*, verbose: bool) -> None:
    """Begin the log; each record begins with the local time, unless the journal notes it."""
    handler = logging.StreamHandler(sys.stderr)
    when = "" if _is_journal(sys.stderr) else "%(asctime)s "
    handler.setFormatter(
        OneLineFormatter(f"{when}%(levelname)s %(name)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S")
    )
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if verbose else logging.INFO)


def _is_journal(stream: IO[str]) -> bool:
    """Whether what is written goes to systemd's journal, as it says in JOURNAL_STREAM."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):  # no file: a test's, say
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def _line(text: str) -> str:
    short = text[:LONGEST_LINE]
    cut = f"... ({len(text)} characters)" if len(text) > LONGEST_LINE else ""
    return printable(short) + cut


def serve_until_stopped(begin: Callable[[], object], work: Callable[[], object]) -> None:
    """Begin, then work every few seconds until SIGTERM or SIGINT comes.

    SIGHUP changes nothing: what such a service reads it reads again by itself.

    Args:
        begin: called first; it may raise what ends the service.
        work: called after each sign of life; it must not raise.
    """
    stop = SignalRequest(time.sleep)

    def on_stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    signal.signal(signal.SIGTERM, on_stop)
    signal.signal(signal.SIGINT, on_stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    begin()
    sd_notify("READY=1", os.environ)
    while not stop.wait(_SIGN_OF_LIFE):
        sd_notify("WATCHDOG=1", os.environ)
        work()
    sd_notify("STOPPING=1", os.environ)
