"""The third output of a network's graph: quantiles of run times.

It takes `facts` float32[m, KNOWN_FACTS] of m groups of jobs and `asked` float32[P], the shares that
are asked for, and gives `run_times` float32[m, P] in seconds; the steps are those of
`features.history.run_spread`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from slurm_rl_plugin.features.history.run_prediction import KNOWN_FACTS
from slurm_rl_plugin.features.history.run_spread import BOUNDS, GRID, PARTS, SHARES
from slurm_rl_plugin.units import FloatArray

#: A share that rises less is taken to rise by so much; float32 tells no smaller step from 0.
_NO_RISE = 1e-7


def spread_inputs() -> list[onnx.ValueInfoProto]:
    """What the output is made of."""
    return [
        helper.make_tensor_value_info("facts", TensorProto.FLOAT, ["m", KNOWN_FACTS]),
        helper.make_tensor_value_info("asked", TensorProto.FLOAT, [len(PARTS)]),
    ]


def spread_output() -> onnx.ValueInfoProto:
    """The output, as the graph declares it."""
    return helper.make_tensor_value_info("run_times", TensorProto.FLOAT, ["m", len(PARTS)])


def spread_initializers(weights: FloatArray) -> list[onnx.TensorProto]:
    """Constants of the steps.

    Args:
        weights: of the log odds, shape [len(BOUNDS), KNOWN_FACTS].
    """
    numbers = {
        "spread_weights": weights.T,
        "spread_steps": np.diff(GRID)[:, None],
        "spread_no_rise": np.array(_NO_RISE),
        "spread_zero": np.array(0.0),
        "spread_one": np.array(1.0),
        "spread_ten": np.array(10.0),
    }
    tensors = [
        numpy_helper.from_array(np.asarray(value, dtype=np.float32), name)
        for name, value in numbers.items()
    ]
    whole = {
        "spread_first": [0],
        "spread_second": [1],
        "spread_last": [SHARES - 1],
        "spread_end": [SHARES],
        "spread_axis": [1],
        "spread_behind": [2],
        "spread_parts": [1] * len(BOUNDS),
    }
    return tensors + [
        numpy_helper.from_array(np.array(value, dtype=np.int64), name)
        for name, value in whole.items()
    ]


def spread_nodes() -> Iterator[onnx.NodeProto]:
    """The steps: log odds, shares that never fall, then the length along each step."""
    node = helper.make_node
    yield node("MatMul", ["facts", "spread_weights"], ["spread_odds"])
    yield node("Sigmoid", ["spread_odds"], ["spread_below"])
    single = [f"spread_below_{place}" for place in range(len(BOUNDS))]
    yield node("Split", ["spread_below", "spread_parts"], single, axis=1)
    risen = single[:1]
    for place, name in enumerate(single[1:], 1):
        risen.append(f"spread_risen_{place}")
        yield node("Max", [risen[-2], name], [risen[-1]])
    yield node("Sub", [risen[0], risen[0]], ["spread_nobody"])
    yield node("Add", ["spread_nobody", "spread_one"], ["spread_all"])
    yield node("Concat", ["spread_nobody", *risen, "spread_all"], ["spread_shares"], axis=1)
    low = ["spread_shares", "spread_first", "spread_last", "spread_axis"]
    yield node("Slice", low, ["spread_low_row"])
    high = ["spread_shares", "spread_second", "spread_end", "spread_axis"]
    yield node("Slice", high, ["spread_high_row"])
    yield node("Unsqueeze", ["spread_low_row", "spread_behind"], ["spread_low"])
    yield node("Unsqueeze", ["spread_high_row", "spread_behind"], ["spread_high"])
    yield node("Sub", ["spread_high", "spread_low"], ["spread_step"])
    yield node("Max", ["spread_step", "spread_no_rise"], ["spread_rise"])
    yield node("Sub", ["asked", "spread_low"], ["spread_beyond"])
    yield node("Div", ["spread_beyond", "spread_rise"], ["spread_along"])
    yield node("Clip", ["spread_along", "spread_zero", "spread_one"], ["spread_part"])
    yield node("Mul", ["spread_part", "spread_steps"], ["spread_lengths"])
    yield node("ReduceSum", ["spread_lengths", "spread_axis"], ["spread_length"], keepdims=0)
    yield node("Pow", ["spread_ten", "spread_length"], ["run_times"])
