"""What the 2008 paper prints, and its names for things."""

from __future__ import annotations

FIFO, RL, NATIVE, SJF = "FIFO", "RL", "native", "SJF oracle"
#: Policies that stand beside FIFO and RL in every claim.
BASELINES = (
    FIFO,
    SJF,
    "EDF",
    "interactive first",
    "min(run + wait) EST",
    "SJF oracle, 1 held",
    "SJF oracle, 2 held",
)
#: Interactive fractions p of the experiments.
FRACTIONS = (0.2, 0.4, 0.5)

#: Table I: p -> mu and lambda (1/s), mean run time (minutes), duration (hours).
TABLE_I = {
    0.2: ("2.48E-04", "1.23E-02", "67", "136"),
    0.4: ("5.68E-04", "2.81E-02", "29", "59"),
    0.5: ("7.70E-04", "3.81E-02", "22", "44"),
}
#: Table II: p -> policy and class -> mean, standard deviation and longest wait, seconds.
TABLE_II: dict[float, dict[tuple[str, str], str]] = {
    0.2: {
        (FIFO, "interactive"): "923 552 2361",
        (RL, "interactive"): "108 123 975",
        (FIFO, "batch"): "825 539 2383",
        (RL, "batch"): "103 112 1040",
    },
    0.4: {
        (FIFO, "interactive"): "690 321 1425",
        (RL, "interactive"): "50 58 597",
        (FIFO, "batch"): "642 314 1426",
        (RL, "batch"): "454 49 515",
    },
    0.5: {
        (FIFO, "interactive"): "740 368 1577",
        (RL, "interactive"): "38 42 368",
        (FIFO, "batch"): "718 360 1550",
        (RL, "batch"): "343 38 397",
    },
}
#: Table III: class -> statistic -> native and RL, seconds; the standard deviation is that of waits.
TABLE_III = {
    "interactive": {
        "mean wait": (5876, 2163),
        "median wait": (531, 352),
        "longest wait": (52692, 20118),
        "std of waits": (10226, 3914),
    },
    "batch": {
        "mean wait": (7695, 1717),
        "median wait": (3214, 200),
        "longest wait": (55376, 22947),
        "std of waits": (10619, 3482),
    },
}


def printed_waits(interactive: float, policy: str, job_class: str) -> tuple[float, ...]:
    """Mean, standard deviation and longest wait of Table II, seconds."""
    return tuple(float(text) for text in TABLE_II[interactive][policy, job_class].split())
