"""The third output of a network's graph: quantiles of run times.

It takes `facts` float32[KNOWN_FACTS, m] of m groups of jobs and `asked` float32[P], the shares that
are asked for, and gives `run_times` float32[P, m] in seconds; the steps are those of
`features.history.run_spread`. Groups come last and quantiles one by one, since onnxruntime is quick
along the last axis of tables: of 10,000 groups it takes a millisecond, an eighth of the time that
it takes with groups first.
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
        helper.make_tensor_value_info("facts", TensorProto.FLOAT, [KNOWN_FACTS, "m"]),
        helper.make_tensor_value_info("asked", TensorProto.FLOAT, [len(PARTS)]),
    ]


def spread_output() -> onnx.ValueInfoProto:
    """The output, as the graph declares it."""
    return helper.make_tensor_value_info("run_times", TensorProto.FLOAT, [len(PARTS), "m"])


def spread_initializers(weights: FloatArray) -> list[onnx.TensorProto]:
    """Constants of the steps.

    Args:
        weights: of the log odds, shape [len(BOUNDS), KNOWN_FACTS].
    """
    numbers = {
        "spread_weights": weights,
        "spread_steps": np.diff(GRID)[None, :],
        "spread_no_rise": np.array(_NO_RISE),
        "spread_zero": np.array(0.0),
        "spread_one": np.array(1.0),
        "spread_ten": np.log(10.0),
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
        "spread_parts": [1] * len(BOUNDS),
        "spread_quantiles": [1] * len(PARTS),
    }
    return tensors + [
        numpy_helper.from_array(np.array(value, dtype=np.int64), name)
        for name, value in whole.items()
    ]


def spread_nodes() -> Iterator[onnx.NodeProto]:
    """The steps: log odds, shares that never fall, then the length along each step."""
    node = helper.make_node
    yield node("MatMul", ["spread_weights", "facts"], ["spread_odds"])
    yield node("Sigmoid", ["spread_odds"], ["spread_below"])
    single = [f"spread_below_{place}" for place in range(len(BOUNDS))]
    yield node("Split", ["spread_below", "spread_parts"], single, axis=0)
    risen = single[:1]
    for place, name in enumerate(single[1:], 1):
        risen.append(f"spread_risen_{place}")
        yield node("Max", [risen[-2], name], [risen[-1]])
    yield node("Sub", [risen[0], risen[0]], ["spread_nobody"])
    yield node("Add", ["spread_nobody", "spread_one"], ["spread_all"])
    yield node("Concat", ["spread_nobody", *risen, "spread_all"], ["spread_shares"], axis=0)
    low = ["spread_shares", "spread_first", "spread_last", "spread_first"]
    yield node("Slice", low, ["spread_low"])
    high = ["spread_shares", "spread_second", "spread_end", "spread_first"]
    yield node("Slice", high, ["spread_high"])
    yield node("Sub", ["spread_high", "spread_low"], ["spread_step"])
    yield node("Max", ["spread_step", "spread_no_rise"], ["spread_rise"])
    yield node("Div", ["spread_one", "spread_rise"], ["spread_steepness"])
    single = [f"spread_asked_{place}" for place in range(len(PARTS))]
    yield node("Split", ["asked", "spread_quantiles"], single, axis=0)
    for place in range(len(PARTS)):
        yield from _length(place)
    lengths = [f"spread_length_{place}" for place in range(len(PARTS))]
    yield node("Concat", lengths, ["spread_length"], axis=0)
    yield node("Mul", ["spread_length", "spread_ten"], ["spread_natural"])
    yield node("Exp", ["spread_natural"], ["run_times"])


def _length(place: int) -> Iterator[onnx.NodeProto]:
    """log10 of the run time of one quantile: how far each step of the grid is gone, added up."""
    node = helper.make_node
    beyond, along, part = (f"spread_{name}_{place}" for name in ("beyond", "along", "part"))
    yield node("Sub", [f"spread_asked_{place}", "spread_low"], [beyond])
    yield node("Mul", [beyond, "spread_steepness"], [along])
    yield node("Clip", [along, "spread_zero", "spread_one"], [part])
    yield node("MatMul", ["spread_steps", part], [f"spread_length_{place}"])
