"""An experiment from start to end on a real Slurm in compressed time, with kills.

A day lasts SLURM_RL_EXPERIMENT_DAY seconds (144 by default, 480 for the record): a block of six
hours is then a quarter of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.domain.switchback import OURS, SITE, Declaration, TurnBlock
from slurm_rl_plugin.hook.experiment.turns import ExperimentFiles
from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.daemon import ClusterError
from tests.real.daemon_under_test import running_hook
from tests.real.drawn_order import wall_clock
from tests.real.load import repeating
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease

pytestmark = pytest.mark.real

DAY = float(os.environ.get("SLURM_RL_EXPERIMENT_DAY", "144"))
PLAN = ClusterPlan(nodes=1, accounts=ACCOUNTS)


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
        seen: time, jobs with a factor and pending jobs, sampled.
    """

    slurm: PrivateSlurm
    folder: Path
    seen: list[tuple[float, int, int]] = field(default_factory=list)

    @property
    def files(self) -> ExperimentFiles:
        return ExperimentFiles(state_file=self.folder / "state.json")

    @property
    def declared(self) -> Declaration:
        found = self.files.declared()
        assert found is not None
        return found

    def say(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs `slurm-rl experiment`."""
        return self.slurm.slurm_rl("experiment", *words, folder=self.folder, timeout=120)

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.say("status", "--json").stdout)
        return found

    def submit(self, rng: random.Random) -> None:
        """A short job or a long one."""
        short = rng.random() < 0.7
        seconds = rng.uniform(1.0, 4.0) if short else rng.uniform(8.0, 20.0)
        user, minutes = ("alice", 1) if short else ("bob", 60)
        with contextlib.suppress(ClusterError):  # slurmctld is down: users try again
            self.slurm.submit(user=user, seconds=seconds, minutes=minutes)

    def sample(self) -> None:
        """Which pending jobs carry a factor."""
        with contextlib.suppress(ClusterError):
            factors = self.slurm.site_factors()
            carried = sum(map(bool, factors.values()))
            self.seen.append((wall_clock(), carried, len(factors)))

    def hook(self) -> Any:
        more = f'busy_share = 1\n[forecast]\nqueue_file = "{self.folder}/queue.npz"\n'
        return running_hook(self.slurm, self.folder, "sjf", cycle=1, more=more)

    def wait_for(self, moment: float) -> None:
        time.sleep(max(moment - wall_clock(), 0.0))

    def wait_for_middle(self, block: TurnBlock) -> None:
        self.wait_for((block.begin + block.end) / 2.0)

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
def rehearsed(slurm: PrivateSlurm, folder: Path) -> Iterator[Rehearsal]:
    """During the block users submit more than the machine can run, and factors are sampled."""
    rehearsal, rng = Rehearsal(slurm=slurm, folder=folder), random.Random(1)
    with (
        repeating(lambda: rehearsal.submit(rng), lambda: rng.expovariate(1.0 / PAUSE)),
        repeating(rehearsal.sample, lambda: 1.0),
    ):
        yield rehearsal


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


@pytest.fixture
def busy(release: SlurmRelease | None, tmp_path: Path) -> Iterator[PrivateSlurm]:
    skip_without_daemons(release)
    with running_slurm(PLAN, release) as slurm:
        for _ in range(3):  # accounting must not be empty
            slurm.submit(user="alice", seconds=1)
        ended = ("sacct", "-a", "-X", "-n", "-s", "COMPLETED", "-o", "JobIDRaw")
        slurm.wait_until(lambda: len(slurm.run(*ended).stdout.split()) == 3, 30, "three ends")
        yield slurm


def test_blocks_are_kept_whatever_is_killed(busy: PrivateSlurm, tmp_path: Path) -> None:
    with rehearsed(busy, tmp_path / "hook") as rehearsal:
        with rehearsal.hook() as hook:
            words = ("start", "--days", "2", "--hours", "6", "--day", str(DAY), "--seed", "3")
            # accounting of a few minutes is too short to predict
            assert rehearsal.say(*words, "--insist").returncode == 0
            blocks = rehearsal.declared.blocks
            with watched(rehearsal):
                rehearsal.wait_for_middle(blocks[1])
                hook.process.kill()
                hook.process.wait(10)
                with rehearsal.hook() as again:
                    rehearsal.wait_for_middle(blocks[3])
                    busy.restart("slurmctld")
                    rehearsal.wait_for_middle(blocks[4])
                    assert again.stop() == 0  # as an upgrade of the package does
                with rehearsal.hook():
                    rehearsal.wait_for(blocks[-1].end)
                    busy.wait_until(
                        lambda: rehearsal.document()["state"] != "running", 60, "its end"
                    )
                    document = rehearsal.document()
                    busy.wait_until(
                        lambda: not any(busy.site_factors().values()), 30, "all factors restored"
                    )
        site, ours = rehearsal.sampled_in(SITE), rehearsal.sampled_in(OURS)
        (tmp_path / "sampled.json").write_text(json.dumps({SITE: site, OURS: ours}))
        assert not [each for each in site if each[1]]
        assert len(site) > 0
        assert sum(1 for each in ours if each[1]) >= 0.7 * len(ours) > 0
        assert document["state"] in ("over", "stepped back")
        if document["state"] == "over":
            assert document["found"]["blocks"] == len(blocks)
