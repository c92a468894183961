"""What `slurm-rl check` asks of sched_config: one order of all queues, and room for the first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from slurm_rl_plugin.batch_systems.pbs.answers.sched_config import SchedConfig, read_sched_config
from slurm_rl_plugin.batch_systems.port import PASS, WARN, Check


def scheduler_checks(path: Path) -> Iterator[Check]:
    """Every check of the file, which is readable for root only unless the site lets others."""
    try:
        config = read_sched_config(path)
    except OSError as error:
        what = (
            f"{path} cannot be read ({error.strerror}): ask root whether by_queue is False and "
            "strict_ordering true there"
        )
        yield Check(WARN, "by_queue", what)
        return
    yield _by_queue(config)
    yield _strict_ordering(config)


def _by_queue(config: SchedConfig) -> Check:
    """Queues go before the formula unless by_queue is off."""
    on = [name for name in ("by_queue", "round_robin") if config.ever(name)]
    if on:
        what = f"{' and '.join(on)} in {config.path}: queues go before the score, which orders each"
        return Check(WARN, "by_queue", f"{what} of them; False makes one order of all")
    return Check(PASS, "by_queue", "one order over all queues")


def _strict_ordering(config: SchedConfig) -> Check:
    """Without it what fits starts, whatever stands before it; help_starving_jobs is obsolete."""
    if config.always("strict_ordering"):
        return Check(PASS, "strict_ordering", "processors are kept for the first waiting job")
    what = (
        f"strict_ordering is not true at all times in {config.path}: nothing is kept free for the "
        "first job, so a wide one may wait for ever; set `strict_ordering: true ALL` "
        "there and send pbs_sched a HUP"
    )
    return Check(WARN, "strict_ordering", what)
