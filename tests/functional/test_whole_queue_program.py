"""The trial of a network that sees the whole queue, on a small log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.networks.hidden_part import network_of
from bench.networks.replayed_orders import TrialLog
from bench.networks.whole_queue import imitation
from bench.networks.whole_queue.__main__ import main
from bench.networks.whole_queue.inputs import (
    CONTEXT,
    FITS,
    JOB_INPUTS,
    LOAD,
    LONGEST,
    PROFILE,
    WAITED,
    WAITING,
    queue_inputs,
)
from bench.networks.whole_queue.loop import WholeQueueOrder
from bench.networks.whole_queue.network import (
    NUMBERS,
    QueueNetwork,
    compile_queue_network,
    score_whole_queue,
)
from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.simulator.kernel.cluster import advance, next_event
from slurm_rl_plugin.simulator.schedules.simulation import simulate_network
from slurm_rl_plugin.simulator.workloads.generators import generated_log

pytestmark = pytest.mark.study  # half a minute, to compile the loop


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last 40 % are a little more than four stretches, the least that gives an interval."""
    path = tmp_path_factory.mktemp("log") / "small.swf"
    write_swf(path, generated_log("mmn:jobs=10600,processors=5"), comments=["MaxProcs: 5"])
    return path


def drawn_network() -> QueueNetwork:
    return QueueNetwork.of(np.random.default_rng(1).normal(0.0, 0.5, NUMBERS))


def test_without_directions_it_is_the_linear_network_and_with_them_another(log: Path) -> None:
    trial, linear = TrialLog.read(log), network_of("default")
    workload = trial.past.workload(RequestedLimit())
    shipped = simulate_network(workload, linear, trial.settings)
    still = WholeQueueOrder(network=imitation.first_network(1), linear=linear)
    assert (still(workload, trial.settings).start == shipped.start).all()
    moved = WholeQueueOrder(network=drawn_network(), linear=linear)
    assert (moved(workload, trial.settings).start != shipped.start).any()


def test_the_compiled_loop_scores_as_the_network_says_on_what_it_is_told(log: Path) -> None:
    trial, linear, network = TrialLog.read(log), network_of("default"), drawn_network()
    workload = trial.past.workload(RequestedLimit())
    cluster = trial.settings.empty_cluster(workload)
    while cluster.counts[1] < 12:  # nothing is started
        advance(workload, cluster, next_event(workload, cluster), np.empty(0, dtype=np.int64))
    inputs = queue_inputs(len(workload.submit), 5)
    scores, jobs = np.zeros(20), np.zeros(20, dtype=np.int64)
    laid_out = compile_queue_network(network, linear, workload)
    score_whole_queue(workload, cluster, laid_out, inputs, scores, jobs)
    told = inputs.jobs[:12]
    plain = network.scores(inputs.linear[None, :12], told[None], inputs.context[None])
    np.testing.assert_allclose(scores[:12], plain[0], rtol=1e-12)
    assert (inputs.context[PROFILE:WAITING] == 1.0).all()  # every processor is free for good
    assert (told[:, FITS] == 1.0).all()
    np.testing.assert_allclose(inputs.context[:JOB_INPUTS], told.mean(axis=0))
    assert inputs.context[LONGEST] == told[:, WAITED].max()
    machines = (10.0 ** (inputs.context[LOAD:PROFILE] + 0.5) - 1.0).sum()
    assert machines == pytest.approx(workload.processors[:12].sum() / 5.0)


def test_the_descent_goes_down_the_loss() -> None:
    rng = np.random.default_rng(0)
    apart = rng.normal(size=(5, 8, 8))
    choices = imitation.Choices(
        linear=rng.normal(size=(5, 8)),
        inputs=rng.normal(size=(5, 8, JOB_INPUTS)),
        context=rng.normal(size=(5, CONTEXT)),
        advantage=apart - apart.transpose(0, 2, 1),
    )
    numbers, far = drawn_network().numbers, 1e-6

    def loss(at: Any) -> float:
        return imitation.loss_of(QueueNetwork.of(at), choices)

    steps = far * np.eye(NUMBERS)
    wanted = [(loss(numbers + step) - loss(numbers - step)) / (2.0 * far) for step in steps]
    found = imitation.slope_of(QueueNetwork.of(numbers), choices)
    np.testing.assert_allclose(found, wanted, atol=1e-7)


def test_a_trial_that_was_interrupted_ends_alike(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [str(log), "--keep", str(tmp_path), "--runs", "2", "--generations", "1"]
    asked += ["--population", "4", "--steps", "40"]
    main(asked)
    first = capsys.readouterr().out
    rows = [json.loads(line) for line in first.splitlines()]
    assert [row["looks"] > 100 for row in rows[:2]] == [True, True]
    ratios = {(row["of"], row["over"]): row for row in rows if row.get("log") == "all"}
    low, high = ratios[("whole queue", "default")]["ci95"]
    assert 0.0 < low <= ratios[("whole queue", "default")]["slowdown"] <= high
    assert rows[-1]["heldout decisions"] > 0
    for kept in tmp_path.glob("search-*"):
        kept.write_text("".join(kept.read_text().splitlines(keepends=True)[:3]))
    main(asked)
    assert capsys.readouterr().out == first
