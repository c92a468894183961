"""What the 2011 paper prints, and its names for things."""

from __future__ import annotations

NATIVE, FIFO, SJF = "native", "FIFO", "SJF oracle"
#: The learned policies: feed-forward (NN) or echo state network (ESN), run times known (ORA) or
#: taken to be the median of the class (EST).
LEARNED = ("NN-ORA", "NN-EST", "ESN-ORA", "ESN-EST")
#: Behind the name of a learned policy: by the reward as printed, not by the difference reward.
PRINTED = ", as printed"
AS_PRINTED = tuple(f"{name}{PRINTED}" for name in LEARNED)
#: Controls: the same echo state network, its reservoir forgetting at once.
FORGETFUL = ("ESN0-ORA", "ESN0-EST")
#: Policies that stand beside the learned ones in every claim.
BASELINES = (
    NATIVE,
    FIFO,
    SJF,
    "interactive first",
    "min(run + wait) EST",
    "SJF oracle, 4 held",
)

#: Table 1: what is said of the run times (seconds) of 4,480 interactive and 5,020 batch jobs.
TABLE_1 = {
    "interactive": {"jobs": "4480", "mean": "108", "standard deviation": "190", "median": "160"},
    "batch": {
        "jobs": "5020",
        "mean": "34927",
        "standard deviation": "78755",
        "median": "15615",
    },
}
#: Table 2: policy -> responsiveness of batch, interactive and all jobs, mean and deviation.
TABLE_2 = {
    NATIVE: ".82 .26 .62 .41 .73 .36",
    "NN-ORA": ".93 .18 .94 .22 .93 .20",
    "NN-EST": ".92 .18 .94 .22 .93 .20",
    "ESN-ORA": ".93 .19 .94 .20 .93 .19",
    "ESN-EST": ".93 .17 .95 .19 .94 .18",
}
TABLE_2_COLUMNS = (
    *("batch R", "batch R std", "interactive R", "interactive R std"),
    *("R", "R std"),
)
#: Table 3: policy -> waits of batch and of interactive jobs, mean and deviation, seconds.
TABLE_3 = {
    NATIVE: "13041 26726 2756 8844",
    "NN-ORA": "3777 12168 1366 7989",
    "NN-EST": "3803 12232 1382 8076",
    "ESN-ORA": "3962 13014 1085 8491",
    "ESN-EST": "3492 12175 495 3589",
}
TABLE_3_COLUMNS = (
    *("batch mean wait", "batch std of waits"),
    *("interactive mean wait", "interactive std of waits"),
)
