"""Networks as ONNX files with the metadata that the head node checks, and back.

A Q-network takes `queue` float32[Fq] and `jobs` float32[n, Fx] and gives `score` float32[n], and
`reserve` float32[1] where it holds processors. An echo state network also takes `memory_in`
float32[H] and gives `memory_out` float32[H]: the state of the job with the highest score, the first
of equals, or `memory_in` where there is no job. The scaler is part of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from slurm_rl_plugin.errors import ModelUnreadable
from slurm_rl_plugin.features.probe import known_schema, schema_entries
from slurm_rl_plugin.features.site import FeatureSchema
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.whole_file import read_whole, write_whole

#: Old enough for onnxruntime 1.17, the oldest that the head node may have.
_OPSET, _IR_VERSION = 17, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxFile:
    """An ONNX file: its metadata and the tensors of its graph."""

    path: Path
    metadata: Mapping[str, str]
    tensors: Mapping[str, FloatArray]  #: the initializers by name, float64

    def tensor(self, name: str) -> FloatArray:
        """The initializer of this name, float64; ModelUnreadable if the file lacks it."""
        if name not in self.tensors:
            raise ModelUnreadable(
                f"model {self.path} has no tensor {name}: only graphs that `slurm-rl train` wrote "
                "can be simulated."
            )
        return self.tensors[name]


def read_onnx(path: Path) -> OnnxFile:
    """Read a model with its manifest and tensors, checked to be ONNX.

    Raises:
        ModelUnreadable: it is missing or no ONNX model.
    """
    try:
        model = onnx.load_model_from_string(read_whole(path))
        onnx.checker.check_model(model)
    except FileNotFoundError:
        raise ModelUnreadable(f"model {path} does not exist: give the path of a model.") from None
    except Exception as error:  # noqa: BLE001 - protobuf and the checker raise types of their own
        raise ModelUnreadable(
            f"model {path} cannot be read as ONNX ({type(error).__name__}): copy it again or "
            "retrain."
        ) from None
    return OnnxFile(
        path=path,
        metadata={entry.key: entry.value for entry in model.metadata_props},
        tensors={
            entry.name: numpy_helper.to_array(entry).astype(np.float64)
            for entry in model.graph.initializer
        },
    )


_TENSORS = (
    *("queue_mean", "queue_scale", "job_mean", "job_scale"),
    *("queue_weights", "job_weights", "bias"),
)
_OPERATORS = {"relu": "Relu", "sigmoid": "Sigmoid"}
#: First steps of both kinds of network: operator, inputs, output.
_SCALED = (
    ("Sub", ["queue", "queue_mean"], "queue_centred"),
    ("Div", ["queue_centred", "queue_scale"], "queue_scaled"),
    ("Sub", ["jobs", "job_mean"], "jobs_centred"),
    ("Div", ["jobs_centred", "job_scale"], "jobs_scaled"),
)
_NETWORK = (
    ("MatMul", ["queue_scaled", "queue_weights"], "queue_part"),
    ("MatMul", ["jobs_scaled", "job_weights"], "job_part"),
    ("Add", ["job_part", "queue_part"], "both"),
    ("Add", ["both", "bias"], "inner"),
)
_NETWORK_SCORE = (
    ("MatMul", ["hidden", "output"], "from_hidden"),
    ("MatMul", ["jobs_scaled", "linear"], "from_jobs"),
    ("Add", ["from_hidden", "from_jobs"], "unbiased"),
    ("Add", ["unbiased", "output_bias"], "column"),
    ("Squeeze", ["column", "column_axis"], "score"),
)
_RESERVE = (
    ("MatMul", ["queue_scaled", "reserve_weights"], "held"),
    ("Add", ["held", "reserve_bias"], "reserve"),
)
_VECTORS = ("queue_mean", "queue_scale", "job_mean", "job_scale", "bias", "queue_linear")
_ECHO_STATE = (
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
    # an entry before the first job, with the lowest score and the old memory, for an empty queue
    ("Unsqueeze", ["memory_in", "rows"], "memory_row"),
    ("Concat", ["memory_row", "states"], "possible_memories"),
    ("Concat", ["lowest", "score"], "possible_scores"),
    ("ArgMax", ["possible_scores"], "best"),
    ("Gather", ["possible_memories", "best"], "memory_out"),
)
_Steps = Sequence[tuple[str, list[str], str]]
_Shapes = dict[str, Sequence[int | str]]
_ATTRIBUTES = {"Concat": {"axis": 0}, "ArgMax": {"axis": 0, "keepdims": 0}, "Gather": {"axis": 0}}


def _write(
    path: Path,
    name: str,
    schema: FeatureSchema,
    steps: _Steps,
    tensors: Mapping[str, FloatArray],
    more: _Shapes,
    metadata: Mapping[str, str],
) -> None:
    """Write a graph that scales the features and does some steps, and the metadata.

    Args:
        tensors: constants, written as float32.
        more: shapes of further inputs, which end in `_in`, and outputs, by name.
    """
    nodes = [
        helper.make_node(operator, inputs, [output], **_ATTRIBUTES.get(operator, {}))
        for operator, inputs, output in (*_SCALED, *steps)
    ]
    initializers = [
        numpy_helper.from_array(np.asarray(value, dtype=np.float32), tensor)
        for tensor, value in tensors.items()
    ]
    used = {each for node in nodes for each in node.input}
    for axis_name, axis in (("rows", 0), ("column_axis", 1)):
        if axis_name in used:
            axes = np.array([axis], dtype=np.int64)
            initializers.append(numpy_helper.from_array(axes, axis_name))
    features: _Shapes = {"queue": [len(schema.queue)], "jobs": ["n", len(schema.jobs)]}
    values = {
        each: helper.make_tensor_value_info(each, TensorProto.FLOAT, shape)
        for each, shape in {**features, **more}.items()
    }
    taken = [each for each in values if each in features or each.endswith("_in")]
    given = [values[each] for each in values if each not in taken]
    graph = helper.make_graph(
        nodes, name, [values[each] for each in taken], given, initializer=initializers
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )
    helper.set_model_props(model, {**schema_entries(schema), **metadata})
    onnx.checker.check_model(model)
    write_whole(path, model.SerializeToString())


def export_network(network: QNetwork, path: Path, metadata: Mapping[str, str]) -> None:
    """Write a network and its metadata; weights become float32."""
    tensors = {
        **{name: getattr(network, name) for name in _TENSORS},
        "output": network.output[:, None],
        "linear": network.linear[:, None],
        "output_bias": np.array([network.output_bias]),
    }
    active = (_OPERATORS[network.activation], ["inner"], "hidden")
    steps: _Steps = (*_NETWORK, active, *_NETWORK_SCORE)
    outputs: _Shapes = {"score": ["n"]}
    if network.reserve_weights is not None:
        tensors["reserve_weights"] = network.reserve_weights[:, None]
        tensors["reserve_bias"] = np.array([network.reserve_bias])
        steps, outputs["reserve"] = (*steps, *_RESERVE), [1]
    entries = {"activation": network.activation, **metadata}
    _write(path, "q_network", network.schema, steps, tensors, outputs, entries)


def import_network(path: Path) -> QNetwork:
    """Read back a network that `export_network` wrote."""
    return network_of(read_onnx(path))


def network_of(file: OnnxFile) -> QNetwork:
    """The network in a file."""
    schema = known_schema(file.path, file.metadata)
    activation = file.metadata.get("activation")
    if activation not in _OPERATORS:
        raise ModelUnreadable(
            f"model {file.path} names {activation} as its activation: only graphs that `slurm-rl "
            "train` wrote can be simulated."
        )
    holds = "reserve_weights" in file.tensors
    queue_and_jobs: dict[str, Any] = {name: file.tensor(name) for name in _TENSORS}
    return QNetwork(
        schema=schema,
        **queue_and_jobs,
        output=file.tensor("output")[:, 0],
        linear=file.tensor("linear")[:, 0],
        output_bias=float(file.tensor("output_bias")[0]),
        activation=activation,
        reserve_weights=file.tensor("reserve_weights")[:, 0] if holds else None,
        reserve_bias=float(file.tensor("reserve_bias")[0]) if holds else 0.0,
    )


def export_echo_state(network: EchoStateNetwork, path: Path, metadata: Mapping[str, str]) -> None:
    """Write a network and its metadata with `memory_size`; weights become float32."""
    features, size = len(network.schema.queue), network.memory_size
    tensors = {
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
    more: _Shapes = {"memory_in": [size], "score": ["n"], "memory_out": [size]}
    entries = {"memory_size": str(size), **metadata}
    _write(path, "echo_state_network", network.schema, _ECHO_STATE, tensors, more, entries)


def echo_state_of(file: OnnxFile) -> EchoStateNetwork:
    """The network in a file."""
    schema = known_schema(file.path, file.metadata)
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


def export_model(
    network: QNetwork | EchoStateNetwork, path: Path, metadata: Mapping[str, str]
) -> None:
    """Write a network and its metadata, as a whole file."""
    if isinstance(network, EchoStateNetwork):
        export_echo_state(network, path, metadata)
    else:
        export_network(network, path, metadata)


def import_model(path: Path) -> QNetwork | EchoStateNetwork:
    """Read back a network that `export_model` wrote, for the compiled simulator."""
    file = read_onnx(path)
    return echo_state_of(file) if "memory_size" in file.metadata else network_of(file)
