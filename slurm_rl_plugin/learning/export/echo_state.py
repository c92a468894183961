"""An echo state network as an ONNX file, and back.

The graph takes `queue` float32[Fq], `jobs` float32[n, Fx] and `memory_in` float32[H] and gives
`score` float32[n] and `memory_out` float32[H]: the state of the job with the highest score, the
first of equals, or `memory_in` where there is no job. The scaler is part of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from slurm_rl_plugin.learning.export.onnx_file import OnnxFile, write_onnx
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.units import FloatArray

_VECTORS = ("queue_mean", "queue_scale", "job_mean", "job_scale", "bias", "queue_linear")
_STEPS = (
    ("Sub", ["queue", "queue_mean"], "queue_centred"),
    ("Div", ["queue_centred", "queue_scale"], "queue_scaled"),
    ("Sub", ["jobs", "job_mean"], "jobs_centred"),
    ("Div", ["jobs_centred", "job_scale"], "jobs_scaled"),
    ("MatMul", ["reservoir_weights", "memory_in"], "from_memory"),
    ("MatMul", ["queue_scaled", "queue_weights"], "from_queue"),
    ("MatMul", ["jobs_scaled", "job_weights"], "from_jobs"),
    ("Add", ["from_memory", "from_queue"], "shared"),
    ("Add", ["shared", "bias"], "shared_biased"),
    ("Add", ["from_jobs", "shared_biased"], "inner"),
    ("Sigmoid", ["inner"], "active"),
    ("Mul", ["active", "leak"], "renewed"),
    ("Mul", ["memory_in", "kept"], "remembered"),
    ("Add", ["renewed", "remembered"], "states"),
    ("MatMul", ["states", "readout"], "score_of_states"),  # columns: n may be 0
    ("MatMul", ["jobs_scaled", "job_linear"], "score_of_jobs"),
    ("MatMul", ["queue_scaled", "queue_linear"], "score_of_queue"),
    ("Add", ["score_of_states", "score_of_jobs"], "score_inside"),
    ("Add", ["score_of_queue", "output_bias"], "score_outside"),
    ("Add", ["score_inside", "score_outside"], "score_column"),
    ("Squeeze", ["score_column", "column_axis"], "score"),
)
#: A place before the first job, with the lowest score and the old memory, serves an empty queue.
_CHOICE = (
    ("Unsqueeze", ["memory_in", "rows"], "memory_row"),
    ("Concat", ["memory_row", "states"], "possible_memories"),
    ("Concat", ["lowest", "score"], "possible_scores"),
    ("ArgMax", ["possible_scores"], "best"),
    ("Gather", ["possible_memories", "best"], "memory_out"),
)
_ATTRIBUTES = {"Concat": {"axis": 0}, "ArgMax": {"axis": 0, "keepdims": 0}, "Gather": {"axis": 0}}


def _tensors(network: EchoStateNetwork) -> dict[str, FloatArray]:
    features = len(network.schema.queue)
    return {
        **{name: getattr(network, name) for name in _VECTORS},
        "reservoir_weights": network.reservoir_weights,
        "queue_weights": network.input_weights[:features],
        "job_weights": network.input_weights[features:],
        "readout": network.readout[:, None],
        "job_linear": network.job_linear[:, None],
        "output_bias": np.array(network.output_bias),
        "leak": np.array(network.leak),
        "kept": np.array(1.0 - network.leak),
        "lowest": np.array([-np.inf]),
    }


def _graph(network: EchoStateNetwork) -> onnx.GraphProto:
    nodes = [
        helper.make_node(operator, inputs, [output], **_ATTRIBUTES.get(operator, {}))
        for operator, inputs, output in (*_STEPS, *_CHOICE)
    ]
    initializers = [
        numpy_helper.from_array(np.asarray(value, dtype=np.float32), name)
        for name, value in _tensors(network).items()
    ]
    for name, axis in (("rows", 0), ("column_axis", 1)):
        initializers.append(numpy_helper.from_array(np.array([axis], dtype=np.int64), name))
    schema, size = network.schema, network.memory_size
    return helper.make_graph(
        nodes,
        "echo_state_network",
        [
            _value("queue", [len(schema.queue)]),
            _value("jobs", ["n", len(schema.jobs)]),
            _value("memory_in", [size]),
        ],
        [_value("score", ["n"]), _value("memory_out", [size])],
        initializer=initializers,
    )


def _value(name: str, shape: Sequence[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def export_echo_state(network: EchoStateNetwork, path: Path, metadata: Mapping[str, str]) -> None:
    """Write a network and its metadata; beside first, then renamed.

    Args:
        network: what to write; weights become float32.
        path: the .onnx file.
        metadata: algorithm, reward weights, checksums and so on; entries on the schema and
            `memory_size` are added.
    """
    entries = {"memory_size": str(network.memory_size), **metadata}
    write_onnx(_graph(network), network.schema, path, entries)


def echo_state_of(file: OnnxFile) -> EchoStateNetwork:
    """The network in a file.

    Raises:
        ModelUnreadable: not a graph of `export_echo_state`.
    """
    schema = file.schema
    readout = file.tensor("readout")[:, 0]
    inputs = [file.tensor("queue_weights"), file.tensor("job_weights")]
    return EchoStateNetwork(
        schema=schema,
        **{name: file.tensor(name) for name in _VECTORS},
        input_weights=np.vstack(inputs),
        reservoir_weights=file.tensor("reservoir_weights"),
        connected=readout != 0.0,
        readout=readout,
        job_linear=file.tensor("job_linear")[:, 0],
        output_bias=float(file.tensor("output_bias")),
        leak=float(file.tensor("leak")),
    )
