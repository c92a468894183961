"""A pause of Python's cycle collector, for answers of 100,000 rows."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No pass of the collector within; it goes on as before afterwards.

    A pass is due after so many new objects, and visits every row that is kept. None of them is part
    of a cycle: with 100,000 jobs a third of the time of a look went into such passes.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
