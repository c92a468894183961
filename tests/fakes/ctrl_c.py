"""Ctrl-C in tests that a shell runs in its background, where it is ignored and inherited so."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ctrl_c_is_heard() -> Iterator[None]:
    """SIGINT interrupts this process and those that it starts in the block."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
