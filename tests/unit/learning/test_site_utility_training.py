"""A site's utility from its own log: what orders its queue, what is kept, and what is published."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.domain.site import JOB_CLASSES
from slurm_rl_plugin.errors import ConfigurationError, SimulationError
from slurm_rl_plugin.learning.policy_search import rule_network
from slurm_rl_plugin.learning.site_utility import (
    SHARE_DEFICIT,
    SiteUtilitySettings,
    train_site_utility,
)
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.policies.site_utilities import published_utilities
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.kernel.workload_history import NO_PAST
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import generated_log, mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.unit.hook.queues import pending_jobs, snapshot_of

SMALL = SiteUtilitySettings(rounds=1, states=4, hidden=2, passes=2, horizon=1800.0)


@pytest.fixture(scope="module")
def load() -> TrainingLoad:
    log = prepare_log(mmn_log(np.random.default_rng(1), processors=6, jobs=150))
    return TrainingLoad.of(log, None, SimulationSettings(capacity=6))


def test_the_verb_writes_a_model_that_is_published_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, model = tmp_path / "site.swf", tmp_path / "site.onnx"
    write_swf(log, generated_log("mmn:jobs=300,processors=5"), comments=["MaxProcs: 5"])
    words = ["train", str(log), "--algorithm", "site-utility", "--runs", "1", "-o", str(model)]
    words += ["--steps", "1", "--set", "states=4", "--set", "horizon=1800", "--set", "order=fifo"]
    assert main([*words, "--plot", str(tmp_path)]) == 0
    shares, _, printed = capsys.readouterr().out.partition("\n")
    assert shares.startswith("site.swf: Shares: none configured")
    assert printed.split()[:2] == ["POLICY", "CORRELATION"]
    validated = {row.rsplit(maxsplit=1)[0].strip(): row.split()[-1] for row in printed.splitlines()}
    better = float(validated["this model"]) > float(validated[SHARE_DEFICIT])
    assert ("do not publish from this one" in printed) is not better
    assert (tmp_path / "site-learning-curve.png").read_bytes()[:4] == b"\x89PNG"
    manifest = json.loads(model.with_suffix(".json").read_text())
    assert manifest["settings"]["order"] == "fifo"
    assert "orders no queue" in model.with_suffix(".md").read_text()
    policy = load_q_network(model)
    assert policy.card.sha256 == manifest["sha256"]
    found = published_utilities(policy, snapshot_of(pending_jobs([1, 1])), site="trial")
    assert list(found.utilities) == list(JOB_CLASSES)
    assert all(0 < each < 1 for kind in found.utilities.values() for each in kind.values())


def test_the_order_of_the_queue_changes_what_a_job_is_worth(load: TrainingLoad) -> None:
    def curve(settings: SiteUtilitySettings, of: TrainingLoad = load) -> object:
        return train_site_utility([of], [of], settings).curve

    greedy = curve(replace(SMALL, order="utility-greedy"))
    assert curve(replace(SMALL, order="sjf")) != greedy
    by_model = train_site_utility([load], [load], SMALL, start=rule_network("sjf")).curve
    assert by_model == curve(replace(SMALL, order="sjf"))
    nobody = replace(load, workload=load.workload._replace(past=NO_PAST))
    with pytest.raises(SimulationError, match="the rule drf needs to know the user of each job"):
        curve(replace(SMALL, order="drf"), nobody)
    assert curve(replace(SMALL, order="drf")) != curve(replace(SMALL, order="fifo"))


def test_what_cannot_be_simulated_is_refused(load: TrainingLoad) -> None:
    with pytest.raises(ConfigurationError, match="setting order is 'best': give the rule"):
        train_site_utility([load], [load], replace(SMALL, order="best"))
    nameless = replace(load.prepared, log=replace(load.prepared.log, users=("-1",) * 4))
    with pytest.raises(ConfigurationError, match="the log names no users, and the rule drf orders"):
        train_site_utility([replace(load, prepared=nameless)], [load], replace(SMALL, order="drf"))
    limited = replace(load, settings=replace(load.settings, class_limit=ClassLimit()))
    with pytest.raises(ConfigurationError, match="leave out --reserve-as"):
        train_site_utility([limited], [load], SMALL)
    for name in ("rounds", "states", "horizon"):
        with pytest.raises(ConfigurationError, match=f"setting {name} is 0"):
            replace(SMALL, **{name: 0})
    for name, value in (("horizon", math.inf), ("decay", -1.0), ("most", math.nan)):
        with pytest.raises(ConfigurationError, match=f"site-utility setting {name} is {value:g}"):
            replace(SMALL, **{name: value})


def test_the_verb_refuses_what_it_would_not_obey(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "mmn:", "--algorithm", "site-utility", "-o", str(tmp_path / "site.onnx")]
    assert main([*words, "--protocol", "heldout"]) == 2
    assert "does not take site-utility" in capsys.readouterr().err
    assert main([*words, "--hold"]) == 2
    assert "no setting 'hold'" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []
