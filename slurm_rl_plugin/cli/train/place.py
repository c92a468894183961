"""Where simulations of a verb run: the options, and the workers that they ask for."""

from __future__ import annotations

import argparse
import math
import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_rl_plugin.cli.argument_types.numbers import at_least_one
from slurm_rl_plugin.cli.argument_types.slurm_times import parse_slurm_duration
from slurm_rl_plugin.cli.logs.slurm_log import SLURM
from slurm_rl_plugin.errors import ConfigurationError

if TYPE_CHECKING:  # submitit comes with an extra
    from slurm_rl_plugin.batch_systems.slurm.job_arrays.arrays import ArraySettings
    from slurm_rl_plugin.batch_systems.slurm.job_arrays.cost import WorkersCost
    from slurm_rl_plugin.batch_systems.slurm.job_arrays.workplace import SlurmArrays

#: Tasks of an array at once, and how long one may take, unless told otherwise.
_WORKERS, _TIME = 8, "60"
#: Long options of sbatch that the workers' jobs need for themselves.
_OURS = frozenset(
    {
        *("array", "chdir", "error", "export", "input", "job-name", "nodes", "ntasks"),
        *("ntasks-per-node", "open-mode", "output", "parsable", "signal", "test-only", "uid"),
        *("wait", "wrap"),
    }
)
_OPTION = re.compile(r"[a-z][a-z0-9-]*")


def add_place_options(parser: argparse.ArgumentParser, beside: str = "the one of -o") -> None:
    """Add what says where simulations run: how many workers, here or on the site's own Slurm.

    Args:
        parser: of the verb.
        beside: what the default of --work-folder is called.
    """
    parser.add_argument(
        "--on",
        choices=[SLURM],
        help="slurm: evaluate on the machines of the Slurm here, in job arrays; by default here",
    )
    parser.add_argument(
        "--workers",
        type=at_least_one,
        metavar="N",
        help=f"with --on slurm: most workers at once (default: {_WORKERS})",
    )
    parser.add_argument(
        "--slurm-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="with --on slurm: an option of sbatch, such as partition=batch, account=physics, "
        f"time=2:00:00 or cpus-per-task=4; repeat (default: time={_TIME}, cpus-per-task=1)",
    )
    parser.add_argument(
        "--work-folder",
        type=Path,
        metavar="DIR",
        help=f"with --on slurm: folder on a file system that all nodes share (default: {beside})",
    )


def array_settings(options: argparse.Namespace, output: Path) -> ArraySettings | None:
    """The workers that the options ask for; None for this machine.

    Args:
        options: of `add_place_options`.
        output: what is written in the end; the folder of the workers is called after it.

    Raises:
        ConfigurationError: options without --on, or a wrong one.
        ModuleNotFoundError: no submitit.
    """
    if options.on is None:
        given = {
            "--workers": options.workers,
            "--slurm-option": options.slurm_option,
            "--work-folder": options.work_folder,
        }
        for name, value in given.items():
            if value:
                raise ConfigurationError(f"{name} is for --on slurm: give that too, or leave it.")
        return None
    from slurm_rl_plugin.batch_systems.slurm.job_arrays.arrays import ArraySettings  # noqa: PLC0415 - an extra

    asked = _sbatch_options(options.slurm_option)
    return ArraySettings(
        folder=_folder(options, output.resolve()),
        workers=options.workers or _WORKERS,
        minutes=_minutes(asked.pop("time", _TIME)),
        processors=_processors(asked.pop("cpus-per-task", "1")),
        options=asked,
        compiled_code=_compiled_code(),
    )


@contextmanager
def training_place(settings: ArraySettings | None) -> Iterator[SlurmArrays | None]:
    """Workers to train on, whose folder goes when all is well; None trains on this machine.

    Raises:
        ConfigurationError: no Slurm here, or the folder is taken.
        BatchSystemError: Slurm does not answer.
    """
    if settings is None:
        yield None
        return
    from slurm_rl_plugin.batch_systems.slurm.job_arrays.workplace import SlurmArrays  # noqa: PLC0415 - an extra

    with _ended_by_signals(), SlurmArrays(settings) as place:
        yield place
        place.forget()


def _folder(options: argparse.Namespace, output: Path) -> Path:
    """Ours alone, beside whatever else is in the folder."""
    parent = output.parent if options.work_folder is None else options.work_folder.resolve()
    if not parent.is_dir():
        raise ConfigurationError(f"--work-folder {parent} is no folder: make it, or give another.")
    return Path(parent / f"{output.name}.workers")


def _compiled_code() -> Path | None:
    """Where the simulator's compiled code is kept here; None where the user says where."""
    if os.environ.get("NUMBA_CACHE_DIR"):  # sbatch hands it on
        return None
    from slurm_rl_plugin.simulator.kernel.kept_code import kept_code  # noqa: PLC0415 - heavy

    return kept_code()


def _sbatch_options(words: list[str]) -> dict[str, str | bool]:
    found: dict[str, str | bool] = {}
    for word in words:
        key, sign, value = word.partition("=")
        key = key.strip().removeprefix("--").replace("_", "-")
        if not _OPTION.fullmatch(key) or (sign and not value.strip()):
            raise ConfigurationError(f"--slurm-option {word}: write such as partition=batch.")
        if key in _OURS:
            raise ConfigurationError(
                f"--slurm-option {word}: the workers set {key} themselves; leave it out."
            )
        found[key] = value.strip() if sign else True
    return found


def _minutes(text: str | bool) -> int:
    try:
        return math.ceil(parse_slurm_duration(str(text)) / 60)
    except argparse.ArgumentTypeError as error:
        raise ConfigurationError(f"--slurm-option time: {error}.") from None


def _processors(text: str | bool) -> int:
    if not str(text).isdecimal() or int(text) < 1:
        raise ConfigurationError(f"--slurm-option cpus-per-task={text}: give a number from 1 on.")
    return int(text)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A lost terminal and `kill` end the training as Ctrl-C does, so that its jobs are ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        del number, frame
        raise KeyboardInterrupt

    kept = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def cost_sentence(cost: WorkersCost) -> str:
    """What the workers cost, for a person."""
    whole = cost.started + cost.loaded + cost.worked
    return (
        f"{cost.workers} workers in {cost.rounds} job arrays: overhead per worker "
        f"{cost.overhead:.1f} s (Python and imports {cost.started / max(cost.workers, 1):.1f} s, "
        f"compiled code {cost.loaded / max(cost.workers, 1):.1f} s), "
        f"{(cost.started + cost.loaded) / max(whole, 1e-9):.0%} of their {whole:.0f} s; "
        f"{cost.besides / max(cost.rounds, 1):.1f} s an array in Slurm's queue; {cost.lost} lost"
    )


def cost_entry(cost: WorkersCost) -> Mapping[str, Any]:
    """The same for --json, seconds."""
    count = max(cost.workers, 1)
    return {
        "workers": cost.workers,
        "lost": cost.lost,
        "arrays": cost.rounds,
        "overhead_per_worker": cost.overhead,
        "start_per_worker": cost.started / count,
        "load_per_worker": cost.loaded / count,
        "work_per_worker": cost.worked / count,
        "queue_per_array": cost.besides / max(cost.rounds, 1),
    }
