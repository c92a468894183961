"""Site utilities: jobs tried in a site's history, the fit, and the verb."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.domain.site import JOB_CLASSES
from slurm_rl_plugin.errors import ConfigurationError, SimulationError
from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.learning.algorithms import train_policy
from slurm_rl_plugin.learning.policy_search import rule_network
from slurm_rl_plugin.learning.site_utility import (
    SHARE_DEFICIT,
    SiteHistory,
    SiteUtilitySettings,
    export_site_utility,
    fit_site_utility,
    try_jobs,
)
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.policies.site_utilities import published_utilities
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.kernel.workload import NO_PAST
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.sites.routed_sites import RoutedSite, SiteTerms, added_job_gains
from slurm_rl_plugin.simulator.workloads.generators import generated_log, mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.reference.loads import random_workload
from tests.unit.hook.queues import pending_jobs, snapshot_of

MEDIANS = ClassMedian(interactive_median=60.0, batch_median=600.0)


def history(seed: int, jobs: int = 120, shares: tuple[float, float] = (0.5, 0.5)) -> SiteHistory:
    workload = random_workload(seed, jobs, 4, parallel=False, exact=True, accounts=2)
    terms = SiteTerms(
        name="north",
        accounts=("a", "b"),
        shares=np.array(shares),
        order=QueueOrder(rule="utility-greedy"),
        settings=SimulationSettings(capacity=4),
    )
    return SiteHistory(terms, workload, np.arange(jobs))


def test_an_odd_future_counts_no_more_than_the_most_that_one_may() -> None:
    settings = SiteUtilitySettings(states=9, horizon=600.0, passes=2)
    tried = try_jobs(history(1), MEDIANS, settings)
    odd, bounded = (
        tried._replace(gain=np.vstack([np.full((1, 2), gain), tried.gain[1:]]))
        for gain in (1e6, settings.most)
    )
    assert fit_site_utility([odd], settings).digest == fit_site_utility([bounded], settings).digest


def test_jobs_of_the_account_that_is_short_of_its_share_are_published_as_worth_more(
    tmp_path: Path,
) -> None:
    """Both accounts submit equally; in the fresh history the first has four times the share."""
    settings = SiteUtilitySettings(states=40, horizon=1800.0, passes=20)
    shares = [(0.2, 0.8), (0.8, 0.2), (0.2, 0.8), (0.8, 0.2)]
    tried = [
        try_jobs(history(seed, shares=each), MEDIANS, settings) for seed, each in enumerate(shares)
    ]
    path = tmp_path / "north.onnx"
    export_site_utility(fit_site_utility(tried, settings), path, MEDIANS)
    policy = load_q_network(path)
    assert policy.estimates == MEDIANS
    fresh = history(50, shares=(0.8, 0.2))
    shown = RoutedSite(fresh.terms, fresh.offered)
    added = [np.flatnonzero(fresh.offered.account == each)[:3].tolist() for each in (0, 1)]
    published, worth = [], []
    for job in range(120):
        shown.run_until(float(fresh.offered.submit[job]))
        if job % 4 == 0:
            utilities = published_utilities(policy, shown.snapshot(), site="north").utilities
            published.append(
                [np.mean([kind[name] for kind in utilities.values()]) for name in "ab"]
            )
            ahead = np.arange(job, 120)
            submit = fresh.offered.submit[ahead]
            gains = added_job_gains(shown, added[0] + added[1], ahead, submit, 1800.0)
            worth.append(np.clip(gains, -3, 3).reshape(2, -1).mean(axis=1))
        shown.take(job)
    short, other = np.mean(worth, axis=0)
    assert short > other + 0.1
    first, second = np.transpose(published)
    assert (first > second).mean() > 0.8


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
        return train_policy([of], [of], settings).curve

    greedy = curve(replace(SMALL, order="utility-greedy"))
    assert curve(replace(SMALL, order="sjf")) != greedy
    by_model = train_policy([load], [load], SMALL, start=rule_network("sjf")).curve
    assert by_model == curve(replace(SMALL, order="sjf"))
    nobody = replace(load, workload=load.workload.having(past=NO_PAST))
    with pytest.raises(SimulationError, match="the rule drf needs to know the user of each job"):
        curve(replace(SMALL, order="drf"), nobody)
    assert curve(replace(SMALL, order="drf")) != curve(replace(SMALL, order="fifo"))


def test_what_cannot_be_simulated_is_refused(load: TrainingLoad) -> None:
    with pytest.raises(ConfigurationError, match="setting order is 'best': give the rule"):
        train_policy([load], [load], replace(SMALL, order="best"))
    nameless = replace(load.prepared, log=replace(load.prepared.log, users=("-1",) * 4))
    with pytest.raises(ConfigurationError, match="the log names no users, and the rule drf orders"):
        train_policy([replace(load, prepared=nameless)], [load], replace(SMALL, order="drf"))
    limited = replace(load, settings=replace(load.settings, class_limit=ClassLimit()))
    with pytest.raises(ConfigurationError, match="leave out --reserve-as"):
        train_policy([limited], [load], SMALL)
