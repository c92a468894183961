"""The model of the hours: interactive jobs first, and a learned reserve as its second output.

The reserve looks at counts of jobs only, which mean the same in compressed time. Its three numbers
were chosen by `python -m tests.bench.reserve_hours.search` on hours that are not shown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.policy_search import rule_network
from slurm_rl_plugin.policies.network import QNetwork

#: A step between the classes far above any wait's score, and small enough for float32.
_CLASS_STEP = 100.0


@dataclass(frozen=True, slots=True)
class ReserveHead:
    """Processors kept free: `always` and a weight for each feature, log10(1 + count) / 3.

    Attributes:
        always: processors.
        running_interactive: of the processors that run interactive jobs.
        pending_batch: of the waiting batch jobs.
    """

    always: float
    running_interactive: float = 0.0
    pending_batch: float = 0.0


#: 3 processors on a quiet machine; 2 or 1 the more interactive jobs run and batch jobs wait. Chosen
#: on hours 1000 to 1199 in the simulator, which decides at each event: .38 of groups of twelve
#: hours meet all four goals, about as many as with any other head that was tried.
RESERVE_HEAD = ReserveHead(always=3.1, running_interactive=-6.0, pending_batch=-3.0)


def hour_network(head: ReserveHead | None = None) -> QNetwork:
    """FIFO within the classes, interactive jobs first, and the reserve of `head`."""
    head = head or RESERVE_HEAD
    fifo = rule_network("fifo")
    linear = fifo.linear.copy()
    linear[SITE.jobs.index("interactive")] = _CLASS_STEP
    return replace(fifo, linear=linear, **_reserve(fifo, head))


def _reserve(fifo: QNetwork, head: ReserveHead) -> dict[str, object]:
    """Weights of the scaled features that give those of the head on the features themselves."""
    weights = np.zeros(len(SITE.queue))
    for name in ("running_interactive", "pending_batch"):
        weights[SITE.queue.index(f"log_{name}")] = getattr(head, name)
    return {
        "reserve_weights": weights * fifo.queue_scale,
        "reserve_bias": head.always + float(weights @ fifo.queue_mean),
    }
