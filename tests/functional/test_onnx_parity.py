"""A network crosses to the head node as an ONNX file and scores there as it did in training."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from slurm_rl_plugin.domain.goals import POINTS_A_DOUBLING, Goals
from slurm_rl_plugin.errors import ModelSchemaMismatch, ModelUnreadable, PolicyError
from slurm_rl_plugin.features.columns import site_job_features, site_queue_features
from slurm_rl_plugin.features.estimates import ClassMedian, RequestedLimit
from slurm_rl_plugin.features.history.past_runs import PastRuns
from slurm_rl_plugin.features.history.run_history import recent_arrivals
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.onnx_file import (
    echo_state_of,
    export_echo_state,
    export_network,
    import_network,
    read_onnx,
)
from slurm_rl_plugin.policies.echo_state import (
    EchoStateNetwork,
    ReservoirSettings,
    random_echo_state,
)
from slurm_rl_plugin.policies.network import ACTIVATIONS, QNetwork
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.policies.silent_onnxruntime import onnxruntime
from tests.reference.loads import random_workload, snapshot_of
from tests.reference.readable_simulator import Moment

QUEUE, JOBS, HIDDEN, SIZE = len(SITE.queue), len(SITE.jobs), 7, 40
READERS = pytest.mark.parametrize("reader", [load_q_network, import_network])


def single(rng, *shape):
    """Numbers that float32 holds exactly, so that only the arithmetic may differ."""
    return np.round(rng.normal(0, 1, shape) * 4096) / 4096


def random_network(seed=1, activation="relu"):
    rng = np.random.default_rng(seed)
    return QNetwork(
        schema=SITE,
        queue_mean=single(rng, QUEUE),
        queue_scale=np.abs(single(rng, QUEUE)) + 0.5,
        job_mean=single(rng, JOBS),
        job_scale=np.abs(single(rng, JOBS)) + 0.5,
        queue_weights=single(rng, QUEUE, HIDDEN),
        job_weights=single(rng, JOBS, HIDDEN),
        bias=single(rng, HIDDEN),
        output=single(rng, HIDDEN),
        linear=single(rng, JOBS),
        output_bias=0.625,
        activation=activation,
    )


def exported(tmp_path, network=None, **metadata):
    path = tmp_path / "model.onnx"
    export_network(network or random_network(), path, metadata)
    return path


def columns_of(snapshot):
    """What the policy should feed a graph that believes requested limits."""
    estimate = RequestedLimit().estimate
    pending, running = snapshot.pending.jobs, snapshot.running.jobs
    believed = estimate(pending.time_limit, pending.interactive)
    remaining = estimate(running.time_limit, running.interactive)
    arrived = recent_arrivals(snapshot)[1:]
    queue = site_queue_features(snapshot, believed, remaining, arrived)
    past, goals = PastRuns().after(snapshot), Goals(shares=POINTS_A_DOUBLING)  # shares differ
    longest = float(snapshot.accrued_wait.max(initial=0.0))
    return queue, site_job_features(snapshot, believed, past, goals, longest)


def queue_of(waiting):
    """`waiting` jobs behind three that run."""
    workload = random_workload(4, jobs=1010, parallel=True)
    now = workload.submit[-1]
    start = [now - 10.0] * 3 + [float("nan")] * 1007
    return snapshot_of(workload, Moment(now, list(range(3, 3 + waiting)), [0, 1, 2], start), 40)


def assert_equal_scores(there, here):
    """1e-5 of the largest score: single precision has 6e-8, and some 20 terms cancel."""
    scale = np.abs(here).max() if len(here) else 1.0
    np.testing.assert_allclose(there, here, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("jobs", [0, 1, 1000])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_onnxruntime_scores_as_the_network_does(tmp_path, activation, jobs):
    network = random_network(2, activation)
    path = exported(tmp_path, network)
    rng = np.random.default_rng(3)
    queue = rng.uniform(0, 1, QUEUE).astype(np.float32)
    table = rng.uniform(-1, 1, (jobs, JOBS)).astype(np.float32)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (scores,) = session.run(["score"], {"queue": queue, "jobs": table})
    assert scores.shape == (jobs,)
    assert scores.dtype == np.float32
    assert_equal_scores(scores, network.scores(queue, table))
    if jobs > 1:
        assert np.ptp(scores) > 1  # equal scores would prove nothing


def test_no_plan_is_kept_for_each_length_of_the_queue(tmp_path):
    policy = load_q_network(exported(tmp_path, random_network(2)))
    # onnxruntime's own default keeps one of some 350 bytes for every length that it ever met
    assert not policy.session.get_session_options().enable_mem_pattern


def test_the_policy_holds_what_the_network_asks_for(tmp_path):
    weights = np.random.default_rng(6).normal(0, 4, QUEUE)
    network = replace(random_network(2), reserve_weights=weights, reserve_bias=24.25)
    path = exported(tmp_path, network)
    snapshot = queue_of(37)
    queue, _ = columns_of(snapshot)
    wanted = network.reserve(queue)
    assert 1 < wanted < 39
    assert load_q_network(path).decide(snapshot).reserve == round(wanted)
    assert load_q_network(path).decide(replace(snapshot, capacity=1)).reserve <= 1
    back = import_network(path)
    assert back.reserve(queue) == pytest.approx(wanted, abs=1e-4)
    assert import_network(exported(tmp_path)).reserve_weights is None


def test_a_reserve_that_is_no_number_is_refused(tmp_path):
    weights = np.full(QUEUE, np.nan)
    path = exported(tmp_path, replace(random_network(), reserve_weights=weights))
    with pytest.raises(PolicyError, match="asks for a reserve of nan: retrain"):
        load_q_network(path).decide(queue_of(7))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_import_is_the_inverse_of_export(tmp_path, activation):
    network = random_network(5, activation)
    back = import_network(exported(tmp_path, network))
    assert back.activation == activation
    assert back.output_bias == network.output_bias
    for name in QNetwork.__dataclass_fields__:
        if isinstance(getattr(network, name), np.ndarray):
            np.testing.assert_array_equal(getattr(back, name), getattr(network, name), name)


def test_metadata_says_schema_and_what_the_trainer_adds(tmp_path):
    path = exported(tmp_path, reward_weights=json.dumps({"fairness": 1.0}), seed="7")
    metadata = read_onnx(path).metadata
    assert metadata["schema_digest"] == SITE.digest
    assert metadata["schema_name"] == "site"
    card = load_q_network(path).card
    assert card.reward_weights == {"fairness": 1.0}
    assert card.metadata == metadata


def test_a_model_trained_on_class_medians_is_served_with_them(tmp_path):
    medians = json.dumps({"interactive": 60.0, "batch": 7000.0})
    path = exported(tmp_path, estimates="class-median", class_medians=medians)
    assert load_q_network(path).estimates == ClassMedian(
        interactive_median=60.0, batch_median=7000.0
    )


@pytest.mark.parametrize(
    "medians", [None, "{}", "[]", "x", '{"interactive": null, "batch": 1}', "[" * 200_000]
)
def test_class_medians_that_are_missing_or_broken_are_refused(tmp_path, medians):
    more = {} if medians is None else {"class_medians": medians}
    path = exported(tmp_path, estimates="class-median", **more)
    with pytest.raises(ModelSchemaMismatch, match="class medians"):
        load_q_network(path)


@READERS
def test_a_model_of_other_features_is_refused(tmp_path, reader):
    other = replace(random_network(), schema=replace(SITE, version=99))
    with pytest.raises(ModelSchemaMismatch, match=r"version 99.*retrain"):
        reader(exported(tmp_path, other))


@READERS
def test_a_model_without_a_schema_is_refused(tmp_path, reader):
    path = exported(tmp_path)
    model = onnx.load(path)
    del model.metadata_props[:]
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelSchemaMismatch, match="unknown"):
        reader(path)


@READERS
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.binary(max_size=300))
def test_random_bytes_are_unreadable(tmp_path, reader, content):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelUnreadable, match="copy it again or retrain"):
        reader(path)


@READERS
@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_model_is_unreadable(tmp_path, reader, kept):
    path = exported(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(ModelUnreadable, match="copy it again or retrain"):
        reader(path)


@READERS
def test_a_model_cut_off_anywhere_in_its_metadata_is_refused(tmp_path, reader):
    path = exported(tmp_path)
    content = path.read_bytes()
    graph_end = content.index(b"schema_name")
    digest_end = content.index(SITE.digest.encode()) + len(SITE.digest)
    for length in range(graph_end - 8, digest_end):
        path.write_bytes(content[:length])
        with pytest.raises((ModelUnreadable, ModelSchemaMismatch)):
            reader(path)


@pytest.mark.parametrize("name", ["output_bias", "linear", "queue_scale"])
def test_a_graph_of_another_make_cannot_be_simulated(tmp_path, name):
    path = exported(tmp_path)
    model = onnx.load(path)
    kept = [each for each in model.graph.initializer if each.name != name]
    gone = next(each for each in model.graph.initializer if each.name == name)
    constant = onnx.helper.make_node(
        "Constant", [], [name], value=numpy_helper.from_array(numpy_helper.to_array(gone))
    )
    nodes = [constant, *model.graph.node]
    del model.graph.initializer[:], model.graph.node[:]
    model.graph.initializer.extend(kept)
    model.graph.node.extend(nodes)
    path.write_bytes(model.SerializeToString())
    load_q_network(path)  # it runs, but its weights cannot be read back
    with pytest.raises(ModelUnreadable, match=name):
        import_network(path)


@pytest.mark.parametrize("part", ["input", "output"])
def test_a_graph_with_other_inputs_or_outputs_is_refused(tmp_path, part):
    path = exported(tmp_path)
    model = onnx.load(path)
    old = {"input": "queue", "output": "score"}[part]
    for node in model.graph.node:
        node.input[:] = ["renamed" if each == old else each for each in node.input]
        node.output[:] = ["renamed" if each == old else each for each in node.output]
    for value in getattr(model.graph, part):
        if value.name == old:
            value.name = "renamed"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelSchemaMismatch, match="renamed"):
        load_q_network(path)


def test_a_failing_session_is_a_policy_error(tmp_path):
    policy = load_q_network(exported(tmp_path))

    class Broken:
        def run(self, *_arguments):
            raise RuntimeError("out of memory")

    with pytest.raises(PolicyError, match=r"failed on 3 jobs .*out of memory"):
        replace(policy, session=Broken()).decide(queue_of(3))


def random_reservoir(seed=1, leak=1.0):
    rng = np.random.default_rng(seed)
    scaler = (
        single(rng, QUEUE),
        np.abs(single(rng, QUEUE)) + 0.5,
        single(rng, JOBS),
        np.abs(single(rng, JOBS)) + 0.5,
    )
    drawn = random_echo_state(SITE, ReservoirSettings(size=SIZE, leak=leak), scaler, rng)
    return replace(
        drawn,
        input_weights=single(rng, QUEUE + JOBS, SIZE),
        reservoir_weights=drawn.reservoir_weights.astype(np.float32).astype(np.float64),
        bias=single(rng, SIZE),
        readout=np.where(drawn.connected, single(rng, SIZE), 0.0),
        queue_linear=single(rng, QUEUE),
        job_linear=single(rng, JOBS),
        output_bias=0.625,
    )


@pytest.mark.parametrize("silent", [False, True])  # of equal jobs the first is remembered
@pytest.mark.parametrize("leak", [1.0, 0.25])
def test_onnxruntime_scores_and_remembers_as_the_network_over_50_decisions(tmp_path, leak, silent):
    network = random_reservoir(2, leak)
    if silent:
        network = replace(network, readout=np.zeros(SIZE), job_linear=np.zeros(JOBS))
    path = tmp_path / "model.onnx"
    export_echo_state(network, path, {})
    back = echo_state_of(read_onnx(path))
    assert (back.leak, back.output_bias) == (leak, 0.625)
    for name in EchoStateNetwork.__dataclass_fields__:
        if isinstance(getattr(network, name), np.ndarray) and name != "connected":
            np.testing.assert_array_equal(getattr(back, name), getattr(network, name), name)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(3)
    here = network.empty_memory()
    there = here.astype(np.float32)
    for jobs in [1, 0, 7, *rng.integers(0, 60, size=47)]:
        queue = rng.uniform(0, 1, QUEUE).astype(np.float32)
        table = rng.uniform(-1, 1, (jobs, JOBS)).astype(np.float32)
        inputs = {"queue": queue, "jobs": table, "memory_in": there}
        score, there = session.run(["score", "memory_out"], inputs)
        scores, states = network.scores(queue, table, here)
        here = states[np.argmax(scores)] if jobs else here
        assert score.dtype == there.dtype == np.float32
        assert score.shape == (jobs,)
        np.testing.assert_allclose(score, scores, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(there, here, rtol=0, atol=1e-5)
