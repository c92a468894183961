"""The life of a service beside the daemon: it begins, shows that it lives, and is told to stop."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from types import FrameType

from slurm_rl_plugin.hook.daemon.sd_notify import sd_notify
from slurm_rl_plugin.hook.daemon.signals import SignalRequest

#: Seconds between signs of life to systemd, and between two times that `work` is done.
_SIGN_OF_LIFE = 5.0


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
