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
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.whole_file import write_whole
from tests.bench.fuzz.targets import TARGETS, quiet

#: Time-out of one input on a busy machine, seconds.
PATIENCE = 30.0
#: Memory limit of a target, bytes.
_MEMORY = 6 << 30
#: Findings of a target after which it stops.
_ENOUGH = 50
#: Finding of a worker that cannot start.
_BROKEN = "at its start"


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
    _worker: subprocess.Popen[bytes] | None = None
    _seen: tuple[int, float] = (-1, 0.0)
    _until: float = math.inf

    def step(self) -> None:
        """Starts, watches or restarts the process."""
        if self._worker is None:
            self._start()
            return
        number, done, sound = self._told()
        self.done, self.sound = done, sound
        if number >= 0:  # the time starts with the first input
            self._until = min(self._until, time.monotonic() + self.seconds)
        if self._is_late:
            self.stop()
            self._worker = None
            return
        status = self._worker.poll()
        if status is None:
            if number != self._seen[0]:
                self._seen = (number, time.monotonic())
            elif time.monotonic() - self._seen[1] > PATIENCE and number >= 0:
                self._worker.kill()
                self._worker.wait()
                self._found(number, f"took more than {PATIENCE:g} s")
            return
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
            self._worker.wait()
            self._told()

    def state(self) -> dict[str, object]:
        """The state for JSON."""
        return {
            "seed": self.seed, "inputs": self.inputs, "done": self.done, "sound": self.sound,
            "findings": self.findings,
        }  # fmt: skip

    @property
    def _counts(self) -> Path:
        return self.folder / f"{self.name.replace(' ', '-')}.counts"

    def _start(self) -> None:
        self._counts.write_bytes(_packed(-1, self.done, self.sound))
        self._seen = (-1, time.monotonic())
        program = [sys.executable, "-m", "tests.bench.fuzz.campaign", "--output", str(self.folder)]
        words = ["--worker", self.name, str(self.seed), str(self.done), str(self.inputs)]
        with (self.folder / f"{self._counts.stem}.log").open("ab") as log:
            self._worker = subprocess.Popen([*program, *words], stdout=log, stderr=log)

    def _told(self) -> tuple[int, int, int]:
        content = self._counts.read_bytes()
        number, done, sound = (
            int.from_bytes(content[place : place + 8], "little", signed=True)
            for place in (0, 8, 16)
        )
        return number, done, sound

    def _found(self, number: int, what: str) -> None:
        self._worker = None
        self.findings.append({"input": number if number >= 0 else _BROKEN, "what": what})
        self.done = number + 1 if number >= 0 else self.inputs


def _packed(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)


def work(name: str, seed: int, first: int, last: int, output: Path) -> int:
    """Runs the inputs of one target."""
    quiet()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    stem = name.replace(" ", "-")
    with (
        tempfile.TemporaryDirectory() as temporary,
        (output / f"{stem}.counts").open("r+b") as file,
    ):
        counts = mmap.mmap(file.fileno(), 24)
        folder = Path(temporary)
        target, generate = TARGETS[name].build(folder), TARGETS[name].generator(folder, seed)
        sound = int.from_bytes(counts[16:24], "little", signed=True)
        found, parent = 0, os.getppid()
        for number in range(first, last):
            if os.getppid() != parent:  # the campaign was killed
                return 1
            counts[0:8] = _packed(number)
            content = generate(number)
            try:
                sound += target(content, folder)
            except Exception:  # noqa: BLE001 - not a documented error
                (output / f"{stem}-{number}.input").write_bytes(content)
                (output / f"{stem}-{number}.txt").write_text(traceback.format_exc())
                found += 1
                if found > _ENOUGH:
                    return 1
            counts[8:24] = _packed(number + 1, sound)
    return 0


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
    state = {run.name: run.state() for run in runs}
    write_whole(output / "state.json", json.dumps(state, indent=2) + "\n")


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
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    output: Path = options.output
    output.mkdir(parents=True, exist_ok=True)
    if options.worker:
        name, seed, first, last = options.worker
        return work(name, int(seed), int(first), int(last), output)
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
