"""A Q-network as an ONNX file, and back: the only thing that crosses to the head node.

The graph takes `queue` float32[Fq] and `jobs` float32[n, Fx] and gives `score` float32[n], and
`reserve` float32[1] where the network holds processors; the scaler is part of it. Everything that
the head node must check stands in the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from slurm_rl_plugin.errors import ModelUnreadable
from slurm_rl_plugin.learning.export.onnx_file import OnnxFile, read_onnx, write_onnx
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.units import FloatArray

_TENSORS = (
    "queue_mean",
    "queue_scale",
    "job_mean",
    "job_scale",
    "queue_weights",
    "job_weights",
    "bias",
)
_LAST_TENSORS = ("output", "linear", "output_bias")
_OPERATORS = {"relu": "Relu", "sigmoid": "Sigmoid"}


def _tensors(network: QNetwork) -> dict[str, FloatArray]:
    tensors = {name: getattr(network, name) for name in _TENSORS}
    tensors["output"] = network.output[:, None]
    tensors["linear"] = network.linear[:, None]
    tensors["output_bias"] = np.array([network.output_bias])
    if network.reserve_weights is not None:
        tensors["reserve_weights"] = network.reserve_weights[:, None]
        tensors["reserve_bias"] = np.array([network.reserve_bias])
    return tensors


def _graph(network: QNetwork) -> onnx.GraphProto:
    steps = (
        ("Sub", ["queue", "queue_mean"], "queue_centred"),
        ("Div", ["queue_centred", "queue_scale"], "queue_scaled"),
        ("Sub", ["jobs", "job_mean"], "jobs_centred"),
        ("Div", ["jobs_centred", "job_scale"], "jobs_scaled"),
        ("MatMul", ["queue_scaled", "queue_weights"], "queue_part"),
        ("MatMul", ["jobs_scaled", "job_weights"], "job_part"),
        ("Add", ["job_part", "queue_part"], "both"),
        ("Add", ["both", "bias"], "inner"),
        (_OPERATORS[network.activation], ["inner"], "hidden"),
        ("MatMul", ["hidden", "output"], "from_hidden"),
        ("MatMul", ["jobs_scaled", "linear"], "from_jobs"),
        ("Add", ["from_hidden", "from_jobs"], "unbiased"),
        ("Add", ["unbiased", "output_bias"], "column"),
    )
    nodes = [helper.make_node(operator, inputs, [output]) for operator, inputs, output in steps]
    nodes.append(helper.make_node("Squeeze", ["column", "column_axis"], ["score"]))
    outputs = [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["n"])]
    if network.reserve_weights is not None:
        nodes.append(helper.make_node("MatMul", ["queue_scaled", "reserve_weights"], ["held"]))
        nodes.append(helper.make_node("Add", ["held", "reserve_bias"], ["reserve"]))
        outputs.append(helper.make_tensor_value_info("reserve", TensorProto.FLOAT, [1]))
    initializers = [
        numpy_helper.from_array(np.asarray(value, dtype=np.float32), name)
        for name, value in _tensors(network).items()
    ]
    initializers.append(numpy_helper.from_array(np.array([1], dtype=np.int64), "column_axis"))
    schema = network.schema
    inputs = [
        helper.make_tensor_value_info("queue", TensorProto.FLOAT, [len(schema.queue)]),
        helper.make_tensor_value_info("jobs", TensorProto.FLOAT, ["n", len(schema.jobs)]),
    ]
    return helper.make_graph(
        nodes,
        "q_network",
        inputs,
        outputs,
        initializer=initializers,
    )


def export_network(network: QNetwork, path: Path, metadata: Mapping[str, str]) -> None:
    """Write a network and its metadata; beside first, then renamed.

    Args:
        network: what to write; weights become float32.
        path: the .onnx file.
        metadata: algorithm, reward weights, checksums and so on; schema entries are added.
    """
    entries = {"activation": network.activation, **metadata}
    write_onnx(_graph(network), network.schema, path, entries)


def import_network(path: Path) -> QNetwork:
    """Read back a network that `export_network` wrote, for the compiled simulator.

    Raises:
        ModelUnreadable: missing, no ONNX model, or not a graph of this package.
        ModelSchemaMismatch: made for features that this release does not compute.
    """
    return network_of(read_onnx(path))


def network_of(file: OnnxFile) -> QNetwork:
    """The network in a file; errors as `import_network`."""
    schema = file.schema
    tensors = {name: file.tensor(name) for name in (*_TENSORS, *_LAST_TENSORS)}
    activation = file.metadata.get("activation")
    if activation not in _OPERATORS:
        raise ModelUnreadable(
            f"model {file.path} names {activation} as its activation: only graphs that `slurm-rl "
            "train` wrote can be simulated."
        )
    holds = "reserve_weights" in file.tensors
    queue_and_jobs: dict[str, Any] = {name: tensors[name] for name in _TENSORS}
    return QNetwork(
        schema=schema,
        **queue_and_jobs,
        output=tensors["output"][:, 0],
        linear=tensors["linear"][:, 0],
        output_bias=float(tensors["output_bias"][0]),
        activation=activation,
        reserve_weights=file.tensor("reserve_weights")[:, 0] if holds else None,
        reserve_bias=float(file.tensor("reserve_bias")[0]) if holds else 0.0,
    )
