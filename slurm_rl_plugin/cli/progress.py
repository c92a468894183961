"""A progress bar on a terminal; in a log a line now and then, and none for short work."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Timer

#: For those who wait at the beginning of the first run on a machine.
COMPILES_FIRST = "the first run compiles the simulator for this machine: a minute or two"
#: Seconds of silence that do not worry a user.
PATIENCE = 2.0
#: Of the work that lies between two lines of a log, the least: its seconds and its fraction.
LOG_SECONDS, LOG_PART = 60.0, 0.1


#: Since when nothing has been shown, by the monotonic clock.
_SILENT_SINCE = [time.monotonic()]


def _silence_ends() -> None:
    _SILENT_SINCE[0] = time.monotonic()


def _is_seen() -> bool:
    """Whether standard error is a terminal; it is None if it was closed."""
    return sys.stderr is not None and sys.stderr.isatty()


def _log_lines(title: str, steps: int) -> Callable[[int, float], None]:
    """Writes progress lines for a log: few, and none for short work."""
    since, told = time.monotonic(), 0

    def tell(step: int, value: float) -> None:
        nonlocal since, told
        del value
        now = time.monotonic()
        if now - since < LOG_SECONDS or step - told < LOG_PART * steps:
            return
        since, told = now, step
        part = step / max(steps, 1)
        if sys.stderr is not None:
            with suppress(OSError):  # who reads has gone away, and the work goes on
                print(f"slurm-rl: {title.strip()}: {part:.0%}", file=sys.stderr, flush=True)

    return tell


def _plain_progress(title: str, steps: int, step: int, value: float) -> None:
    del value
    sys.stderr.write(f"\r{title} {step / max(steps, 1):.0%}")
    sys.stderr.flush()


def say_of_compiling(compiled_before: Callable[[], bool]) -> None:
    """Say on a terminal that the first run takes longer, where this is one."""
    if _is_seen() and not compiled_before():
        print(f"slurm-rl: {COMPILES_FIRST}", file=sys.stderr)
        _silence_ends()


@contextmanager
def said_if_long(what: str) -> Iterator[None]:
    """Say on a terminal what goes on, once nothing was shown for PATIENCE; it is taken away again.

    Args:
        what: goes on; nobody else may write to the terminal meanwhile.
    """
    if not _is_seen():
        yield
        return
    said: list[str] = []

    def say() -> None:
        said.append(what)
        sys.stderr.write(f"{what} ...")
        sys.stderr.flush()

    timer = Timer(max(_SILENT_SINCE[0] + PATIENCE - time.monotonic(), 0.0), say)
    timer.daemon = True
    with suppress(RuntimeError):  # a host may have no thread left, and the work needs none
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        if said:
            sys.stderr.write("\r\033[K")
            _silence_ends()


@contextmanager
def progress_bar(
    title: str, steps: int, measure: str, *, drawn_by_itself: bool = True
) -> Iterator[Callable[[int, float], None]]:
    """Show `steps` steps on standard error; yields a function of the step and a figure.

    Where nobody looks on, a line follows LOG_SECONDS and LOG_PART of the work at the soonest.

    Args:
        measure: what the figure is.
        drawn_by_itself: between steps too; a thread does it, which work that is measured can feel.
    """
    if not _is_seen():
        yield _log_lines(title, steps)
        return
    try:
        from rich.console import Console  # noqa: PLC0415 - only where a terminal shows it
        from rich.progress import Progress  # noqa: PLC0415
    except ModuleNotFoundError:  # on a head node, which has no more than the daemon needs
        _plain_progress(title, steps, 0, 0.0)
        yield partial(_plain_progress, title, steps)
        sys.stderr.write("\r\033[K")
        _silence_ends()
        return

    console = Console(stderr=True)
    with Progress(console=console, transient=True, auto_refresh=drawn_by_itself) as progress:
        task = progress.add_task(title, total=steps)

        def update(step: int, value: float) -> None:
            figure = f"{value:,.0f}" if float(value).is_integer() else f"{value:.4f}"
            progress.update(
                task,
                completed=step,
                description=f"{title} {measure}={figure}",
                refresh=not drawn_by_itself,
            )

        yield update
    _silence_ends()


@contextmanager
def parts_bar(
    title: str, parts: int, *, drawn_by_itself: bool = True
) -> Iterator[Callable[[int], None]]:
    """The same for work that reports how many more parts are done; shows the fraction."""
    done = 0
    with progress_bar(title, parts, "part", drawn_by_itself=drawn_by_itself) as progress:

        def add(more: int) -> None:
            nonlocal done
            done += more
            progress(done, done / parts)

        yield add


@contextmanager
def told_if_interrupted(checkpoint: Path | None, *, several: bool = False) -> Iterator[None]:
    """On Ctrl-C name the file that the same command goes on from, where a step has been kept.

    Args:
        checkpoint: of the computation; None keeps nothing.
        several: of each training one, called the same with an ending.
    """
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is None:
            raise
        from slurm_rl_plugin.learning.checkpoint import steps_kept  # noqa: PLC0415 - the extra

        beside = checkpoint.parent.iterdir() if several else [checkpoint]
        mine = [each for each in beside if each.name.startswith(checkpoint.name)]
        kept = sorted(each for each in mine if steps_kept(each) > 0)
        if not kept:
            raise
        more = f" and {len(kept) - 1} more" if len(kept) > 1 else ""
        raise KeyboardInterrupt(
            f"interrupted: the same command goes on from {kept[0]}{more}."
        ) from None
