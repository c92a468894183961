"""A Slurm that runs the tasks of an array at once, as processes of this machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

from slurm_rl_plugin.errors import ConfigurationError

_SBATCH = r"""
[ -e "$S/refuses" ] && { cat "$S/refuses" >&2; exit 1; }
[ -e "$S/hangs" ] && sleep 300
last=$(grep -o 'array=0-[0-9]*' "$1" | cut -d- -f2)
id=$(($(cat "$S/last" 2>/dev/null || echo 0) + 1)); echo $id > "$S/last"
start() {
    key=$1; shift
    : > "$S/$key.job"
    env SLURM_JOB_ID=$id SLURM_PROCID=0 "$@" setsid sh -c \
        'echo $$ > "$0.pid"; bash "$1"; echo $? > "$0.end"; mv "$0.end" "$0.rc"' "$S/$key" "$file" \
        >/dev/null 2>&1 </dev/null &
}
file=$1
if [ -z "$last" ]; then start $id X=1; else
    for task in $(seq 0 $last); do
        start ${id}_$task SLURM_ARRAY_JOB_ID=$id SLURM_ARRAY_TASK_ID=$task
    done
fi
echo "Submitted batch job $id"
"""
_SRUN = r"""
for lost in "$S"/lose-*; do rmdir "$lost" 2>/dev/null && exit 137; done
while :; do case $1 in --output|--error) shift 2;; --*) shift;; *) break;; esac; done
exec "$@"
"""
_SACCT = r"""
[ -e "$S/no-accounting" ] && { echo 'Slurm accounting storage is disabled' >&2; exit 1; }
echo 'JobID|State|NodeList'
for job in "$S"/*.job; do
    key=$(basename "$job" .job); state=RUNNING
    [ -e "$S/$key.rc" ] && state=FAILED
    [ "$(cat "$S/$key.rc" 2>/dev/null)" = 0 ] && state=COMPLETED
    echo "$key|$state|here"
done
"""
_SQUEUE = r"""
for job in "$S"/*.job; do
    key=$(basename "$job" .job)
    [ -e "$job" ] && [ ! -e "$S/$key.rc" ] && echo ${key%_*}
done
true
"""
_SCANCEL = r"""
for id in "$@"; do
    for job in "$S/$id".job "$S/$id"_*.job; do
        key=$(basename "$job" .job)
        [ -e "$job" ] && [ ! -e "$S/$key.rc" ] || continue
        echo 143 > "$S/$key.rc"; kill -KILL -- -$(cat "$S/$key.pid")
    done
done
"""
_COMMANDS = {
    "sbatch": _SBATCH,
    "srun": _SRUN,
    "sacct": _SACCT,
    "squeue": _SQUEUE,
    "scancel": _SCANCEL,
}


class ArraySlurm:
    """Writes the commands into a folder; `env` has them first on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.state.mkdir(parents=True)
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name, text in _COMMANDS.items():
            path = self.bin / name
            path.write_text(f'#!/bin/bash\nS="{self.state}"\n{text.lstrip()}')
            path.chmod(0o755)

    @property
    def env(self) -> dict[str, str]:
        top = str(Path(__file__).parents[2])
        return {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "PYTHONPATH": f"{top}:{os.environ.get('PYTHONPATH', '')}",
        }

    def lose(self, workers: int) -> None:
        """So many of the workers that start next are killed before they begin."""
        for number in range(workers):
            (self.state / f"lose-{number}").mkdir()

    def switch(self, name: str, words: str = "") -> None:
        """One of refuses, hangs, no-accounting."""
        (self.state / name).write_text(words + "\n")

    @property
    def submitted(self) -> int:
        """Arrays and single jobs so far."""
        path = self.state / "last"
        return int(path.read_text()) if path.exists() else 0

    @property
    def running(self) -> list[str]:
        return [
            path.stem for path in self.state.glob("*.job") if not path.with_suffix(".rc").exists()
        ]


def product(factor: int, item: int) -> int:
    """A task."""
    return factor * item


def negative_product(factor: int, item: int) -> int:
    """Another one."""
    return -factor * item


def slow_product(seconds: float, item: int) -> int:
    """A task that takes its time."""
    time.sleep(seconds)
    return item


def no_learning(shared: object, item: int) -> int:
    """A task whose input is wrong."""
    raise ConfigurationError(f"item {item} cannot be learned from.")


def broken(shared: object, item: int) -> int:
    """A task with a bug."""
    raise ZeroDivisionError(f"item {item}")


def nothing(shared: object) -> None:
    """No warming up."""
