"""`make fuzz`: over a million numbered inputs; the same command resumes an interrupted campaign.

    python -m tests.bench.fuzz.campaign --output fuzz-output

Each target runs in a process of its own, which records the number of each input first. An input on
which the process dies or takes too long is a finding; the next process starts after it. Findings
are files in the folder, and the same number and seed make the same input again:

    python -m tests.bench.fuzz.campaign --output fuzz-output --again offer 4711
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

from slurm_rl_plugin.cli.progress import parts_bar
from tests.bench.fuzz.targets import TARGETS, quiet
from tests.bench.report import write_document

#: Time-out of one input on a busy machine, seconds.
PATIENCE = 30.0
#: Memory limit of a target, bytes.
_MEMORY = 6 << 30
#: Findings of a target after which it stops.
_ENOUGH = 50
#: Finding of a worker that cannot start.
_BROKEN = "at its start"
#: The progress bar has a thread, so no process is forked.
_PROCESSES = multiprocessing.get_context("spawn")


@dataclass
class Run:
    """The campaign of one target."""

    name: str
    seed: int
    inputs: int
    folder: Path
    seconds: float = math.inf
    done: int = 0
    sound: int = 0
    findings: list[dict[str, object]] = field(default_factory=list)
    #: The input that is tried, and the inputs done and sound; the process writes them.
    _counts: MutableSequence[int] = field(default_factory=lambda: _PROCESSES.Array("q", 3))
    _worker: BaseProcess | None = None
    _seen: tuple[int, float] = (-1, 0.0)
    _until: float = math.inf

    def step(self) -> None:
        """Starts, watches or restarts the process."""
        if self._worker is None:
            self._counts[:] = (-1, self.done, self.sound)
            self._seen = (-1, time.monotonic())
            words = (self.name, self.seed, self.done, self.inputs, self.folder, self._counts)
            self._worker = _PROCESSES.Process(target=work, args=words, daemon=True)
            self._worker.start()
            return
        number, self.done, self.sound = self._counts
        now, status = time.monotonic(), self._worker.exitcode
        if number != self._seen[0]:
            self._seen = (number, now)
        if number >= 0:  # the time starts with the first input
            self._until = min(self._until, now + self.seconds)
        if self._is_late:
            self.stop()
        elif status is None and number >= 0 and now - self._seen[1] > PATIENCE:
            self.stop()
            self._found(number, f"took more than {PATIENCE:g} s")
        elif status is not None:
            self._worker = None
            if status and self.done < self.inputs:
                self._found(number, f"the process ended with {status}")

    @property
    def ended(self) -> bool:
        """Whether all inputs are done or the time is up."""
        enough = self.done >= self.inputs or len(self.findings) > _ENOUGH
        return self._worker is None and (enough or self._is_late)

    @property
    def _is_late(self) -> bool:
        return time.monotonic() > self._until

    def stop(self) -> None:
        """Ends the process; the next campaign resumes after its last whole input."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.join()
            self._worker = None
            _, self.done, self.sound = self._counts

    def _found(self, number: int, what: str) -> None:
        self.findings.append({"input": number if number >= 0 else _BROKEN, "what": what})
        self.done = number + 1 if number >= 0 else self.inputs


def work(
    name: str, seed: int, first: int, last: int, output: Path, counts: MutableSequence[int]
) -> None:
    """Runs the inputs of one target in a process of its own."""
    stem = name.replace(" ", "-")
    with (output / f"{stem}.log").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    quiet()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        target, generate = TARGETS[name].build(folder), TARGETS[name].generator(folder, seed)
        found, parent = 0, os.getppid()
        for number in range(first, last):
            if os.getppid() != parent:  # the campaign was killed
                return
            counts[0] = number
            content = generate(number)
            try:
                counts[2] += target(content, folder)
            except Exception:  # noqa: BLE001 - not a documented error
                (output / f"{stem}-{number}.input").write_bytes(content)
                (output / f"{stem}-{number}.txt").write_text(traceback.format_exc())
                found += 1
                if found > _ENOUGH:
                    sys.exit(1)
            counts[1] = number + 1


def campaign(runs: Sequence[Run], output: Path, at_once: int) -> None:
    """Runs all targets, `at_once` at a time; saves the state every few seconds."""
    written = 0.0
    with parts_bar("fuzzing", sum(run.inputs for run in runs)) as progress:
        progress(before := sum(run.done for run in runs))
        try:
            while waiting := [run for run in runs if not run.ended]:
                for run in waiting[:at_once]:
                    run.step()
                now = sum(run.done for run in runs)
                progress(now - before)
                before = now
                if time.monotonic() - written > 5.0:
                    written = time.monotonic()
                    _write(runs, output)
                time.sleep(0.2)
        finally:
            for run in runs:
                run.stop()
            _write(runs, output)


def _write(runs: Sequence[Run], output: Path) -> None:
    kept = ("seed", "inputs", "done", "sound", "findings")
    state = {run.name: {name: getattr(run, name) for name in kept} for run in runs}
    write_document(output / "state.json", state)


def _runs(output: Path, names: Sequence[str], seed: int, part: float, seconds: float) -> list[Run]:
    path = output / "state.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    runs = []
    for name in names:
        run = Run(name, seed, max(int(TARGETS[name].inputs * part), 1), output, seconds)
        before = known.get(name, {})
        if before.get("seed") == seed:
            run.done, run.sound = before["done"], before["sound"]
            run.findings = before["findings"]
        runs.append(run)
    return runs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", type=float, default=1.0, help="of the inputs of each target")
    parser.add_argument("--seconds", type=float, default=math.inf, help="of each target at most")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--target", action="append", choices=list(TARGETS))
    parser.add_argument("--again", nargs=2, metavar=("TARGET", "NUMBER"))
    options = parser.parse_args()
    output: Path = options.output
    output.mkdir(parents=True, exist_ok=True)
    if options.again:
        return _again(options.again[0], int(options.again[1]), options.seed, output)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    names = options.target or list(TARGETS)
    runs = _runs(output, names, options.seed, options.part, options.seconds)
    try:
        campaign(runs, output, options.at_once)
    except KeyboardInterrupt:
        print("interrupted: the same command resumes", file=sys.stderr)
    for run in runs:
        print(f"{run.name:14s} {run.done:9,d} inputs, {run.sound:9,d} taken as sound")
    findings = sorted(output.glob("*.input"))
    died = sum(len(run.findings) for run in runs)
    print(f"{sum(run.done for run in runs):,} inputs, {len(findings)} failed, {died} died or hung")
    return int(bool(findings or died))


def _again(name: str, number: int, seed: int, output: Path) -> int:
    quiet()
    folder = output / "again"
    folder.mkdir(exist_ok=True)
    content = TARGETS[name].generator(folder, seed)(number)
    sys.stdout.buffer.write(content + b"\n")
    TARGETS[name].build(folder)(content, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
