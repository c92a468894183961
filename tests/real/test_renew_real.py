"""`slurm-rl renew` from a lost gain to another model in service, on a real Slurm.

slurmdbd tells of 39 weeks. Users' limits said who is short until 15 weeks ago; since then they say
the contrary, and the model in service, which prefers short limits, does harm. The experiment of the
candidate is in compressed time, SLURM_RL_EXPERIMENT_DAY seconds a day.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.domain.queue_file import read_queue, write_queue
from slurm_rl_plugin.learning.export.model import import_model
from slurm_rl_plugin.learning.export.network import export_network
from slurm_rl_plugin.policies.network import QNetwork
from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.daemon_under_test import RunningHook
from tests.real.drawn_order import wall_clock
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.rehearsal import ENTRY, Rehearsal, going_on, watched
from tests.real.slurm_releases import SlurmRelease
from tests.real.written_history import HOUR, WEEK, DrawnJobs, drawn_past, write_history

pytestmark = pytest.mark.real

DAY = float(os.environ.get("SLURM_RL_EXPERIMENT_DAY", "96"))
DAYS, STEPS = 8, 24
PROCESSORS = 4
PLAN = ClusterPlan(
    nodes=1,
    processors_per_node=PROCESSORS,
    accounts=ACCOUNTS,
    options={"PriorityWeightFairshare": "0"},  # alice's jobs are short: it would order by that
)
DEFAULT = Path(__file__).parents[2] / "policy_models" / "default.onnx"
#: Weeks before now that accounting begins, that the model was put in service, that users changed.
BEGIN, SERVICE, CHANGE = 39, 20, 15
PAST = (
    DrawnJobs(user="alice", account="physics", hours=(0.01, 0.15), minutes=(20, 240), part=0.7),
    DrawnJobs(user="bob", account="biology", hours=(0.4, 1.2), minutes=(240, 80), part=0.3),
)


@dataclass(slots=True, kw_only=True)
class Renewing:
    """A cluster with a past, and the model in service.

    Attributes:
        slurm: the cluster.
        model: in service.
    """

    slurm: PrivateSlurm
    model: Path

    def renew(self, folder: Path, *words: str, code: int = 0) -> dict[str, Any]:
        """The step that `slurm-rl renew` does."""
        command = (*ENTRY, "renew", "--json", "--config", str(folder / "slurm-rl.toml"), *words)
        with (folder / "renew.log").open("ab") as log:
            done = subprocess.run(
                command, env=self.slurm.env, stdout=subprocess.PIPE, stderr=log, check=False
            )
        said = (folder / "renew.log").read_text()
        assert done.returncode == code, said[-2000:]
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture
def site(release: SlurmRelease | None, tmp_path: Path) -> Iterator[Renewing]:
    skip_without_daemons(release)
    now = int(wall_clock())
    past = drawn_past(
        PAST,
        begin=now - BEGIN * WEEK,
        change=now - CHANGE * WEEK,
        end=now - HOUR,
        processors=PROCESSORS,
        seed=1,
    )
    model = tmp_path / "models" / "present.onnx"
    model.parent.mkdir()
    with running_slurm(PLAN, release) as slurm:
        slurm.submit(user="alice", account="physics", seconds=1)
        ended = ("sacct", "-a", "-X", "-n", "-s", "COMPLETED", "-o", "JobIDRaw")
        slurm.wait_until(lambda: bool(slurm.run(*ended).stdout.split()), 30, "an end")
        write_history(slurm, past)
        told = slurm.run("sacct", "-a", "-X", "-n", "-S", "now-400days", "-o", "JobIDRaw")
        assert len(told.stdout.split()) == len(past) + 1
        export_network(preferring_short_limits(), model, {})
        yield Renewing(slurm=slurm, model=model)


def preferring_short_limits() -> QNetwork:
    """A model that knows nothing but what jobs ask for, and protects nobody."""
    network = import_model(DEFAULT)
    assert isinstance(network, QNetwork)
    linear = np.zeros_like(network.linear)
    linear[network.schema.jobs.index("log_time_limit")] = -1.0
    return replace(network, linear=linear, output=np.zeros_like(network.output), protection=None)


def put_in_service_earlier(site: Renewing, rehearsal: Rehearsal) -> None:
    """Have the watch see the model in service for the first time weeks ago."""
    folder = rehearsal.folder
    earlier = folder / "earlier.npz"
    look = read_queue(folder / "queue.npz")
    assert not len(look.snapshot.pending)
    moment = look.snapshot.now - SERVICE * WEEK
    write_queue(earlier, replace(look, snapshot=replace(look.snapshot, now=moment)))
    words = ("--watch", "--set", f"forecast.queue_file={earlier}")
    found = site.renew(folder, *words)
    assert found["weeks"] == 0
    assert found["promised"] < 0.8


def test_a_lost_gain_ends_with_a_model_that_was_better(site: Renewing, tmp_path: Path) -> None:
    folder = tmp_path / "hook"
    # a queue that is soon empty again: what the other order left is not what a block costs; of a
    # minute jobs would be interactive, of which the past tells nothing
    rehearsal = Rehearsal(
        slurm=site.slurm, folder=folder, model=site.model, minutes=(60, 2), pause=1.7
    )
    with rehearsal.hook() as hook:
        site.slurm.wait_until((folder / "queue.npz").exists, 30, "a look")
        put_in_service_earlier(site, rehearsal)
        assert hook.stop() == 0
    with going_on(rehearsal) as users, users.hook() as hook:
        before = site.model.read_bytes()
        words = ("--weeks", "10", "--steps", str(STEPS), "--days", str(DAYS), "--day", str(DAY))
        found = site.renew(folder, *words)
        assert found["step"] == "declared", found
        assert found["ratio"] < 0.9
        gain = json.loads((folder / "state.json.gain").read_text())
        assert gain["lost_at"] > wall_clock() - CHANGE * WEEK
        assert site.renew(folder)["step"] == "experiment"
        with watched(users):
            site.slurm.wait_until(
                lambda: users.document()["state"] != "running", (DAYS + 1) * DAY, "its end"
            )
        document = users.document()
        (tmp_path / "found.json").write_text(json.dumps(document))
        assert document["state"] == "over", document
        assert site.model.read_bytes() == before  # nobody but renew puts it in place
        in_service_afterwards(site, folder, hook, before)


def in_service_afterwards(site: Renewing, folder: Path, hook: RunningHook, before: bytes) -> None:
    """The candidate is, and the daemon has read it."""
    found = site.renew(folder)
    assert found["step"] == "adopted", found
    assert site.model.read_bytes() != before
    (kept,) = site.model.parent.glob("present.until-*.onnx")
    assert kept.read_bytes() == before
    site.slurm.wait_until(
        lambda: hook.audit[-1].get("model") == found["model_sha256"], 30, "a cycle of the new model"
    )
    assert site.renew(folder, "--check")["step"] in ("unknown", "as promised")
