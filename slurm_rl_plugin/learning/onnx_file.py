"""Networks as ONNX files with the metadata that the head node checks, and back.

A Q-network takes `queue` float32[Fq] and `jobs` float32[n, Fx] and gives `score` float32[n], and
`reserve` float32[1] where it holds processors. An echo state network also takes `memory_in`
float32[H] and gives `memory_out` float32[H]: the state of the job with the highest score, the first
of equals, or `memory_in` where there is no job. The scaler is part of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from jinja2 import Template
from onnx import helper, numpy_helper

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
_VECTORS = ("queue_mean", "queue_scale", "job_mean", "job_scale", "bias", "queue_linear")
#: Axes of operators that change the shape.
_AXES = {"rows": 0, "column_axis": 1}


def _write(
    path: Path,
    name: str,
    schema: FeatureSchema,
    tensors: Mapping[str, FloatArray],
    metadata: Mapping[str, str],
    **words: object,
) -> None:
    """Write a graph and the metadata; `words` of `<name>.onnxtxt`, and constants as float32."""
    text = read_whole(Path(__file__).with_name(f"{name}.onnxtxt")).decode()
    sizes = {"queue": len(schema.queue), "jobs": len(schema.jobs)}
    graph = onnx.parser.parse_graph(Template(text).render(**sizes, **words))
    for node in graph.node:
        node.ClearField("domain")  # empty
    used = {each for node in graph.node for each in node.input}
    constants = {each: np.asarray(value, dtype=np.float32) for each, value in tensors.items()}
    constants |= {each: np.array([axis]) for each, axis in _AXES.items() if each in used}
    graph.initializer.extend(
        numpy_helper.from_array(value, each) for each, value in constants.items()
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
    holds = network.reserve_weights is not None
    if network.reserve_weights is not None:
        tensors["reserve_weights"] = network.reserve_weights[:, None]
        tensors["reserve_bias"] = np.array([network.reserve_bias])
    entries = {"activation": network.activation, **metadata}
    active = _OPERATORS[network.activation]
    _write(path, "q_network", network.schema, tensors, entries, activation=active, reserve=holds)


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
    entries = {"memory_size": str(size), **metadata}
    _write(path, "echo_state_network", network.schema, tensors, entries, memory=size)


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
