"""`slurm-rl compile`: compile the simulator at installation, for all users of this Python."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from slurm_rl_plugin.batch_systems.command_process import start_python
from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.kernel.kept_code import FOR_ALL, named_for_all
from slurm_rl_plugin.whole_file import own_folder, write_whole

_LOG = "egee:jobs=300,seed=1"
_CONF = "{empty}/slurm.conf"
_POLICIES = tuple(f"--policy={name}" for name in ("fifo", "sjf", "saf", "default"))
_MACHINE = """ClusterName=drawn
SlurmctldHost=localhost
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/multifactor
PriorityWeightAge=1000
NodeName=n[1-16] CPUs=4
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE
"""
#: Bytes at the end of a command's output that may explain its failure.
_LAST_WORDS = 4096
#: Command -> its runs; {empty} is a folder with _MACHINE as slurm.conf. Few jobs are enough: only
#: the kinds of arguments decide which functions are compiled.
_RUNS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "demo": (("demo", "--generations", "1", "--output", "{empty}/demo"),),
    "evaluate": (
        ("evaluate", _LOG, *_POLICIES),
        ("evaluate", _LOG, "--cluster", _CONF, *_POLICIES),
    ),
    "train": (("train", "egee:jobs=2000,seed=1", "--steps", "1", "-o", "{empty}/model.onnx"),),
    "what-if": (
        (
            *("what-if", "egee:jobs=600,seed=1", "--cluster", _CONF),
            *("--change", "PriorityWeightAge=2000", "--change", "hook default"),
        ),
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The commands to compile for."""
    parser.add_argument(
        "verbs",
        nargs="*",
        metavar="FOR",
        help=f"commands to compile for, out of {', '.join(_RUNS)} (default: all)",
    )


def main(options: argparse.Namespace) -> int:
    """Run each command on a few jobs, and keep the compiled code for all users of this Python."""
    unknown = [each for each in options.verbs if each not in _RUNS]
    if unknown:
        raise ConfigurationError(f"{unknown[0]} compiles nothing: give {', '.join(_RUNS)}.")
    runs = [run for verb in options.verbs or _RUNS for run in _RUNS[verb]]
    folder, begin = _writable_folder(), time.perf_counter()
    with TemporaryDirectory() as empty, parts_bar("compiling", len(runs)) as progress:
        write_whole(Path(empty) / "slurm.conf", _MACHINE)
        for run in runs:
            _compile(run, folder, empty)
            progress(1)
    print(f"compiled in {time.perf_counter() - begin:.0f} s, for all users of {sys.prefix}")
    print(f"the code is in {folder}, which you can remove at any time")
    return 0


def _writable_folder() -> Path:
    folder = named_for_all()
    if folder is None:
        raise ConfigurationError(f"{FOR_ALL} is empty: set it to a folder.")
    try:
        if not folder.is_dir():
            before = os.umask(0o022)  # all users must be able to read it
            try:
                folder.mkdir(parents=True)
            finally:
                os.umask(before)
        own_folder(folder, make=False)
        for each in (folder, *filter(Path.is_dir, folder.iterdir())):
            if not os.access(each, os.W_OK):
                raise ConfigurationError(f"{each} is not writable for this user: {_ADVICE}")
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be used ({error.strerror}): {_ADVICE}") from None
    return folder


_ADVICE = (
    "compile as the user who installed this Python, or set "
    f"{FOR_ALL} to another folder for all users; without it, each user's first run compiles."
)


def _compile(run: tuple[str, ...], folder: Path, empty: str) -> None:
    """Run a command, and ignore its output unless it fails."""
    with TemporaryFile() as printed:
        child = start_python(
            ["-m", "slurm_rl_plugin.cli.entry", *(each.format(empty=empty) for each in run)],
            env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
            umask=0o022,  # all users must be able to read it
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
        try:
            status = child.wait()
        finally:
            child.kill()  # if this process is interrupted
        printed.seek(max(os.fstat(printed.fileno()).st_size - _LAST_WORDS, 0))
        lines = printed.read(_LAST_WORDS).decode(errors="replace").splitlines()
    if status != 0:
        said = lines[-1] if lines else f"exit code {status}"
        raise ConfigurationError(f"slurm-rl {run[0]} failed on a drawn log: {said}")
