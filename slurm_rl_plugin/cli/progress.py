"""A progress bar on a terminal; in a log a line from time to time, and none for short work."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Timer

#: Printed before the first run on a machine.
COMPILES_FIRST = "the first run compiles the simulator for this machine: a minute or two"
#: Seconds after which the current work is shown.
PATIENCE = 2.0
#: Minimum seconds, and minimum fraction of the work, between two lines of a log.
LOG_SECONDS, LOG_PART = 60.0, 0.1


def _is_seen() -> bool:
    """Whether standard error is a terminal; it is None if it was closed."""
    return sys.stderr is not None and sys.stderr.isatty()


def _log_lines(title: str, steps: int) -> Callable[[int, float], None]:
    """Writes progress lines for a log: few, and none for short work."""
    since, last = time.monotonic(), 0

    def report(step: int, value: float) -> None:
        nonlocal since, last
        del value
        now = time.monotonic()
        if now - since < LOG_SECONDS or step - last < LOG_PART * steps:
            return
        since, last = now, step
        part = step / max(steps, 1)
        if sys.stderr is not None:
            with suppress(OSError):  # the reader has closed the log, and the work continues
                print(f"slurm-rl: {title.strip()}: {part:.0%}", file=sys.stderr, flush=True)

    return report


def say_of_compiling(compiled_before: Callable[[], bool]) -> None:
    """Say on a terminal that this run takes longer, if it compiles first."""
    if _is_seen() and not compiled_before():
        print(f"slurm-rl: {COMPILES_FIRST}", file=sys.stderr)


@contextmanager
def said_if_long(what: str) -> Iterator[None]:
    """Show `what` on a terminal after PATIENCE, and remove it at the end.

    Nothing else may write to the terminal meanwhile.
    """
    if not _is_seen():
        yield
        return
    said: list[str] = []

    def say() -> None:
        said.append(what)
        sys.stderr.write(f"{what} ...")
        sys.stderr.flush()

    timer = Timer(PATIENCE, say)
    timer.daemon = True
    with suppress(RuntimeError):  # the host has no thread left, and the work needs none
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        if said:
            sys.stderr.write("\r\033[K")


@contextmanager
def progress_bar(title: str, steps: int, measure: str) -> Iterator[Callable[[int, float], None]]:
    """Show progress on standard error; yields a function of the step, of `steps`, and a figure.

    Args:
        measure: name of the figure.
    """
    rich = None
    with suppress(ModuleNotFoundError):  # a head node has no more than the daemon needs
        rich = import_module("rich.progress") if _is_seen() else None
    if rich is None:
        yield _log_lines(title, steps)
        return
    console = import_module("rich.console").Console(stderr=True)
    with rich.Progress(console=console, transient=True) as progress:
        task = progress.add_task(title, total=steps)

        def update(step: int, value: float) -> None:
            figure = f"{value:,.0f}" if float(value).is_integer() else f"{value:.4f}"
            progress.update(task, completed=step, description=f"{title} {measure}={figure}")

        yield update


@contextmanager
def parts_bar(title: str, parts: int) -> Iterator[Callable[[int], None]]:
    """Show progress; yields a function of the number of parts done since the last call."""
    done = 0
    with progress_bar(title, parts, "part") as progress:

        def add(more: int) -> None:
            nonlocal done
            done += more
            progress(done, done / parts)

        yield add


@contextmanager
def resumable(checkpoint: Path | None, *, several: bool = False) -> Iterator[None]:
    """On Ctrl-C name the checkpoint from which the same command continues, if it has a step.

    Args:
        checkpoint: file of the computation; None for none.
        several: each training has a file of its own, named `checkpoint` with an ending.
    """
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is None:
            raise
        from slurm_rl_plugin.learning.checkpoint import steps_kept  # noqa: PLC0415 - the extra

        files = checkpoint.parent.iterdir() if several else [checkpoint]
        mine = [each for each in files if each.name.startswith(checkpoint.name)]
        kept = sorted(each for each in mine if steps_kept(each) > 0)
        if not kept:
            raise
        more = f" and {len(kept) - 1} more" if len(kept) > 1 else ""
        raise KeyboardInterrupt(
            f"interrupted: the same command continues from {kept[0]}{more}."
        ) from None
