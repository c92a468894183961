"""What is said on Ctrl-C of a computation that goes on from a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_rl_plugin.learning.checkpoint import steps_kept


@contextmanager
def told_if_interrupted(checkpoint: Path | None, *, several: bool = False) -> Iterator[None]:
    """Name the file that the same command goes on from, where a step has been kept.

    Args:
        checkpoint: of the computation; None keeps nothing.
        several: of each training one, called the same with an ending.

    Raises:
        KeyboardInterrupt: with the sentence, in place of one without.
    """
    try:
        yield
    except KeyboardInterrupt:
        kept = [] if checkpoint is None else _kept(checkpoint, several=several)
        if not kept:
            raise
        more = f" and {len(kept) - 1} more" if len(kept) > 1 else ""
        raise KeyboardInterrupt(
            f"interrupted: the same command goes on from {kept[0]}{more}."
        ) from None


def _kept(checkpoint: Path, *, several: bool) -> list[Path]:
    beside = checkpoint.parent.iterdir() if several else [checkpoint]
    mine = [each for each in beside if each.name.startswith(checkpoint.name)]
    return sorted(each for each in mine if steps_kept(each) > 0)
