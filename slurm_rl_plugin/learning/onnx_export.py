"""A Q-network as an ONNX file, and back: the only thing that crosses to the head node.

The graph takes `queue` float32[Fq] and `jobs` float32[n, Fx] and gives `score` float32[n], and
`reserve` float32[1] where the network holds processors; the scaler is part of it. Everything that
the head node must check stands in the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from slurm_rl_plugin.errors import ModelUnreadable
from slurm_rl_plugin.features.known_schemas import known_schema
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.whole_file import write_whole

#: Old enough for onnxruntime 1.17, the oldest that the head node may have.
_OPSET, _IR_VERSION = 17, 8
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
_OPERATORS = {"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid"}


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
    return helper.make_graph(
        nodes,
        "q_network",
        [
            helper.make_tensor_value_info("queue", TensorProto.FLOAT, [len(schema.queue)]),
            helper.make_tensor_value_info("jobs", TensorProto.FLOAT, ["n", len(schema.jobs)]),
        ],
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
    model = helper.make_model(
        _graph(network), opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )
    schema = network.schema
    entries = {
        "schema_name": schema.name,
        "schema_version": str(schema.version),
        "schema_digest": schema.digest,
        "activation": network.activation,
        **metadata,
    }
    helper.set_model_props(model, entries)
    onnx.checker.check_model(model)
    write_whole(path, model.SerializeToString())


def metadata_of(path: Path) -> dict[str, str]:
    """The metadata of an ONNX file.

    Raises:
        ModelUnreadable: it is missing or no ONNX model.
    """
    return {entry.key: entry.value for entry in _load(path).metadata_props}


def _load(path: Path) -> onnx.ModelProto:
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except FileNotFoundError:
        raise ModelUnreadable(f"model {path} does not exist: give the path of a model.") from None
    except Exception as error:  # noqa: BLE001 - protobuf and the checker raise types of their own
        raise ModelUnreadable(
            f"model {path} cannot be read as ONNX ({type(error).__name__}): copy it again or "
            "retrain."
        ) from None
    return model


def import_network(path: Path) -> QNetwork:
    """Read back a network that `export_network` wrote, for the compiled simulator.

    Raises:
        ModelUnreadable: missing, no ONNX model, or not a graph of this package.
        ModelSchemaMismatch: made for other features.
    """
    model = _load(path)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    schema = known_schema(path, metadata)
    arrays = {
        entry.name: numpy_helper.to_array(entry).astype(np.float64)
        for entry in model.graph.initializer
    }
    missing = [name for name in (*_TENSORS, *_LAST_TENSORS) if name not in arrays]
    if missing:
        raise ModelUnreadable(
            f"model {path} has no tensor {missing[0]}: only graphs that `slurm-rl train` wrote "
            "can be simulated."
        )
    activation = metadata.get("activation")
    if activation not in _OPERATORS:
        raise ModelUnreadable(
            f"model {path} names {activation} as its activation: only graphs that `slurm-rl "
            "train` wrote can be simulated."
        )
    return QNetwork(
        schema=schema,
        **{name: arrays[name] for name in _TENSORS},
        output=arrays["output"][:, 0],
        linear=arrays["linear"][:, 0],
        output_bias=float(arrays["output_bias"][0]),
        activation=activation,
        reserve_weights=arrays["reserve_weights"][:, 0] if "reserve_weights" in arrays else None,
        reserve_bias=float(arrays.get("reserve_bias", [0.0])[0]),
    )
