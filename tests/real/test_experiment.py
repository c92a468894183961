"""An experiment from start to end on a real Slurm in compressed time, with kills.

A day lasts SLURM_RL_EXPERIMENT_DAY seconds (144 by default, 480 for the record): a block of six
hours is then a quarter of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_rl_plugin.domain.switchback import OURS, SITE, TurnBlock
from slurm_rl_plugin.learning.onnx_file import export_network, import_model
from slurm_rl_plugin.policies.network import QNetwork
from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.daemon_under_test import RunningHook
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.rehearsal import SWITCH, rehearsed, watched
from tests.real.slurm_releases import SlurmRelease

pytestmark = pytest.mark.real

DAY = float(os.environ.get("SLURM_RL_EXPERIMENT_DAY", "144"))
#: Seconds of a day where only turns are looked at.
TURNS_DAY = 120.0
PLAN = ClusterPlan(nodes=1, accounts=ACCOUNTS)
DEFAULT = Path(__file__).parents[2] / "policy_models" / "default.onnx"


@pytest.fixture
def busy(release: SlurmRelease | None, tmp_path: Path) -> Iterator[PrivateSlurm]:
    skip_without_daemons(release)
    with running_slurm(PLAN, release) as slurm:
        for _ in range(3):  # accounting must not be empty
            slurm.submit(user="alice", account="physics", seconds=1)
        ended = ("sacct", "-a", "-X", "-n", "-s", "COMPLETED", "-o", "JobIDRaw")
        slurm.wait_until(lambda: len(slurm.run(*ended).stdout.split()) == 3, 30, "three ends")
        yield slurm


def kill(hook: RunningHook) -> None:
    hook.process.kill()
    hook.process.wait(10)


def test_blocks_are_kept_whatever_is_killed(busy: PrivateSlurm, tmp_path: Path) -> None:
    with rehearsed(busy, tmp_path / "hook", "sjf") as rehearsal:
        with rehearsal.hook() as hook:
            rehearsal.say(
                *("start", "--days", "2", "--hours", "6", "--day", str(DAY), "--seed", "3"),
                "--insist",  # accounting of a few minutes is too short to predict
            )
            blocks = rehearsal.declared.blocks
            with watched(rehearsal):
                second = blocks[1]
                rehearsal.wait_for((second.begin + second.end) / 2.0)
                kill(hook)
                with rehearsal.hook() as again:
                    fourth = blocks[3]
                    rehearsal.wait_for((fourth.begin + fourth.end) / 2.0)
                    busy.restart("slurmctld")
                    fifth = blocks[4]
                    rehearsal.wait_for((fifth.begin + fifth.end) / 2.0)
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


def reversed_model(path: Path) -> Path:
    """The default network upside down."""
    network = import_model(DEFAULT)
    assert isinstance(network, QNetwork)
    upside_down = replace(network, output=-network.output, linear=-network.linear)
    export_network(upside_down, path, {})
    return path


def test_a_harmful_model_is_off_by_itself(busy: PrivateSlurm, tmp_path: Path) -> None:
    model = reversed_model(tmp_path / "reversed.onnx")
    with rehearsed(busy, tmp_path / "hook", model) as rehearsal, rehearsal.hook() as hook:
        words = ("start", "--days", "8", "--hours", "6", "--day", str(DAY), "--seed", "3")
        rehearsal.say(*words, "--insist")
        with watched(rehearsal):
            busy.wait_until(
                lambda: rehearsal.document()["state"] == "stepped back", 4 * DAY, "stepping back"
            )
        document = rehearsal.document()
        busy.wait_until(lambda: not any(busy.site_factors().values()), 30, "all factors restored")
        assert hook.metric("slurm_rl_experiment_stepped_back") == 1.0
        assert "ours" in document["reason"]


def middle(block: TurnBlock) -> float:
    return (block.begin + block.end) / 2.0


def test_a_candidate_has_its_turns_and_the_model_in_service_the_others(
    busy: PrivateSlurm, tmp_path: Path
) -> None:
    candidate = reversed_model(tmp_path / "reversed.onnx")
    acts = {OURS: 'name="reversed"', SITE: 'name="sjf"'}
    with rehearsed(busy, tmp_path / "hook", "sjf") as rehearsal, rehearsal.hook() as hook:
        words = ("start", "--candidate", str(candidate), "--days", "2", "--hours", "4")
        said = rehearsal.say(*words, "--day", str(TURNS_DAY), "--seed", "3", "--insist")
        assert "reversed against the model in service (sjf)" in said
        blocks = rehearsal.declared.blocks
        assert {each.arm for each in blocks[:3]} == {OURS, SITE}
        with watched(rehearsal):
            for block in blocks[:2]:
                rehearsal.wait_for(middle(block))
                assert acts[block.arm] in hook.metrics()
            kill(hook)
            with rehearsal.hook() as again:
                rehearsal.wait_for(middle(blocks[2]))
                assert acts[blocks[2].arm] in again.metrics()
                rehearsal.say("stop", "--reason", "enough")
                busy.wait_until(lambda: acts[SITE] in again.metrics(), 30, "the model in service")
                assert rehearsal.document()["state"] == "stopped"
                assert again.stop() == 0
        assert not any(busy.site_factors().values())
        begin, end = blocks[0].begin + SWITCH, middle(blocks[2])
        carried = [each[1] > 0 for each in rehearsal.seen if begin < each[0] < end and each[2] > 1]
        # except for the seconds without a daemon, one of the two orders always applies
        assert sum(carried) >= 0.7 * len(carried) > 0
