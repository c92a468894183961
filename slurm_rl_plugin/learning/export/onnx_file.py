"""ONNX files: written with what the head node must check, read back with one sentence on faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from slurm_rl_plugin.errors import ModelUnreadable
from slurm_rl_plugin.features.model_schema import known_schema, schema_entries
from slurm_rl_plugin.features.schema import FeatureSchema
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.whole_file import read_whole, write_whole

#: Old enough for onnxruntime 1.17, the oldest that the head node may have.
_OPSET, _IR_VERSION = 17, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxFile:
    """An ONNX file as read: its metadata and the tensors of its graph.

    Attributes:
        path: where it was read.
        metadata: all entries.
        tensors: the initializers by name, float64.
    """

    path: Path
    metadata: Mapping[str, str]
    tensors: Mapping[str, FloatArray]

    @property
    def schema(self) -> FeatureSchema:
        """The schema that it was trained for.

        Raises:
            ModelSchemaMismatch: this release does not compute it.
        """
        return known_schema(self.path, self.metadata)

    def tensor(self, name: str) -> FloatArray:
        """The initializer of this name, float64.

        Raises:
            ModelUnreadable: the file has none of that name.
        """
        if name not in self.tensors:
            raise ModelUnreadable(
                f"model {self.path} has no tensor {name}: only graphs that `slurm-rl train` wrote "
                "can be simulated."
            )
        return self.tensors[name]


def write_onnx(
    graph: onnx.GraphProto, schema: FeatureSchema, path: Path, metadata: Mapping[str, str]
) -> None:
    """Write a graph and its metadata; beside first, then renamed.

    Args:
        graph: what to write.
        schema: what it takes; its entries are added to the metadata.
        path: the .onnx file.
        metadata: algorithm, reward weights, checksums and so on.
    """
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )
    helper.set_model_props(model, {**schema_entries(schema), **metadata})
    onnx.checker.check_model(model)
    write_whole(path, model.SerializeToString())


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
