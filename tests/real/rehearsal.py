"""An experiment in compressed time on a real Slurm whose users keep submitting."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurm_rl_plugin.domain.switchback import Declaration
from slurm_rl_plugin.hook.experiment.turns import ExperimentFiles
from tests.real.daemon import ClusterError
from tests.real.daemon_under_test import running_hook
from tests.real.drawn_order import wall_clock
from tests.real.private_cluster import PrivateSlurm

ENTRY = (sys.executable, "-m", "slurm_rl_plugin.cli.entry")
#: Seconds after the begin of a block in which factors may still be taken back.
SWITCH = 6.0
#: Seconds between submissions, mean: more is asked for than there is room below 1.49.
PAUSE = 1.35


@dataclass(slots=True, kw_only=True)
class Rehearsal:
    """An experiment on a cluster whose users keep submitting.

    Attributes:
        slurm: the cluster.
        folder: of the daemon.
        model: on trial.
        seen: time, jobs with a factor and pending jobs, sampled.
    """

    slurm: PrivateSlurm
    folder: Path
    model: Path | str
    seen: list[tuple[float, int, int]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def files(self) -> ExperimentFiles:
        return ExperimentFiles(state_file=self.folder / "state.json")

    @property
    def declared(self) -> Declaration:
        found = self.files.declared()
        assert found is not None
        return found

    def say(self, *words: str, check: bool = True) -> str:
        """What `slurm-rl experiment` says."""
        done = self.slurm.slurm_rl("experiment", *words, folder=self.folder, timeout=120)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout + done.stderr

    def document(self) -> dict[str, Any]:
        text = self.say("status", "--json", check=False)
        found: dict[str, Any] = json.loads(text)
        return found

    def submit_for_ever(self) -> None:
        """Short jobs and long ones."""
        rng = random.Random(1)
        while not self.over.is_set():
            short = rng.random() < 0.7
            seconds = rng.uniform(1.0, 4.0) if short else rng.uniform(8.0, 20.0)
            with contextlib.suppress(ClusterError):  # slurmctld is down: users try again
                self.slurm.submit(
                    user="alice" if short else "bob",
                    account="physics" if short else "biology",
                    seconds=seconds,
                    minutes=1 if short else 60,
                )
            self.over.wait(rng.expovariate(1.0 / PAUSE))

    def sample_for_ever(self) -> None:
        """Which pending jobs carry a factor."""
        while not self.over.is_set():
            with contextlib.suppress(ClusterError):
                factors = self.slurm.site_factors()
                carried = sum(map(bool, factors.values()))
                self.seen.append((wall_clock(), carried, len(factors)))
            self.over.wait(1.0)

    def hook(self) -> Any:
        more = f'busy_share = 1\n[forecast]\nqueue_file = "{self.folder}/queue.npz"\n'
        return running_hook(self.slurm, self.folder, self.model, cycle=1, more=more)

    def wait_for(self, moment: float) -> None:
        time.sleep(max(moment - wall_clock(), 0.0))

    def sampled_in(self, arm: str) -> list[tuple[float, int, int]]:
        """What was seen in blocks of one order, after the switch, with two pending jobs or more."""
        found = []
        for moment, carried, pending in self.seen:
            block = self.declared.block_at(moment)
            if block is None or block.arm != arm or pending < 2:
                continue
            if block.begin + SWITCH < moment < block.end - 1.0:
                found.append((moment, carried, pending))
        return found


@contextmanager
def rehearsed(slurm: PrivateSlurm, folder: Path, model: Path | str) -> Iterator[Rehearsal]:
    """During the block users submit more than the machine can run, and factors are sampled."""
    rehearsal = Rehearsal(slurm=slurm, folder=folder, model=model)
    threads = [
        threading.Thread(target=each)
        for each in (rehearsal.submit_for_ever, rehearsal.sample_for_ever)
    ]
    for each in threads:
        each.start()
    try:
        yield rehearsal
    finally:
        rehearsal.over.set()
        for each in threads:
            each.join()


@contextmanager
def watched(rehearsal: Rehearsal) -> Iterator[None]:
    """Runs `slurm-rl experiment watch` during the block."""
    log = rehearsal.folder / "watch.log"
    with log.open("ab") as file:
        process = subprocess.Popen(
            [
                *(*ENTRY, "experiment", "watch"),
                *("--config", str(rehearsal.folder / "slurm-rl.toml")),
            ],
            env=rehearsal.slurm.env,
            stdout=file,
            stderr=file,
        )
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
