"""The process of a service: its log on standard error, its watchdog messages, and its end."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import IO

from slurm_rl_plugin.hook.daemon.signals import SignalRequest, sd_notify
from slurm_rl_plugin.readable import printable

#: Characters of the longest line.
LONGEST_LINE = 4000
#: Seconds between watchdog messages to systemd, and between calls of `work`.
_WATCHDOG = 5.0


class OneLineFormatter(logging.Formatter):
    """A record as one line; a traceback follows, indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is inherited
        """The record on one line of at most LONGEST_LINE printable characters."""
        return _line(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802 - the name is inherited
        """The traceback, indented, so that no line of it looks like a record."""
        text = super().formatException(ei)  # type: ignore[arg-type] # the type of logging
        return "\n".join(f"  {_line(line)}" for line in text.split("\n"))


def log_to_standard_error(*, verbose: bool) -> None:
    """Start the log; each record begins with the local time, unless the journal adds it."""
    handler = logging.StreamHandler(sys.stderr)
    when = "" if _is_journal(sys.stderr) else "%(asctime)s "
    handler.setFormatter(
        OneLineFormatter(f"{when}%(levelname)s %(name)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S")
    )
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if verbose else logging.INFO)


def _is_journal(stream: IO[str]) -> bool:
    """Whether the stream goes to systemd's journal, according to JOURNAL_STREAM."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):  # not a file, as in a test
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def _line(text: str) -> str:
    short = text[:LONGEST_LINE]
    cut = f"... ({len(text)} characters)" if len(text) > LONGEST_LINE else ""
    return printable(short) + cut


def serve_until_stopped(begin: Callable[[], object], work: Callable[[], object]) -> None:
    """Call `begin`, then `work` at once and every few seconds until SIGTERM or SIGINT.

    SIGHUP changes nothing: such a service reads its files again without it.

    Args:
        begin: an error of it ends the service.
        work: must not raise. If it returns True, more work waits, and there is no pause.
    """
    stop = SignalRequest(time.sleep)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    begin()
    sd_notify("READY=1", os.environ)
    pause = 0.0
    while not stop.wait(pause):
        sd_notify("WATCHDOG=1", os.environ)
        pause = 0.0 if work() is True else _WATCHDOG
    sd_notify("STOPPING=1", os.environ)
