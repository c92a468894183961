"""What a model says of plan estimates: the verdict, its sentence, and files that are not ours."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from slurm_rl_plugin.errors import ModelSchemaMismatch
from slurm_rl_plugin.policies.plan_gain import PLAN_GAIN_ENTRY, PlanGain, plan_gain_in

GAIN = PlanGain.judged(slowdown=0.91, ci95=(0.85, 0.99), longest_wait=1.1, runs=8)


@pytest.mark.parametrize(
    ("high", "longest_wait", "verdict"),
    [
        (0.999, 1.25, "gained"),
        (1.0, 1.0, "nothing gained"),
        (0.9, 1.26, "nothing gained"),
        (1.2, 3.0, "nothing gained"),
    ],
)
def test_gained_is_what_all_of_the_interval_shows_and_nobody_pays(high, longest_wait, verdict):
    gain = PlanGain.judged(slowdown=0.9, ci95=(0.8, high), longest_wait=longest_wait, runs=8)
    assert (gain.verdict, gain.gained) == (verdict, verdict == "gained")
    assert (gain.doubt("site") == "") == gain.gained


def test_the_sentence_tells_the_figures_and_the_mend():
    gain = PlanGain.judged(slowdown=0.98, ci95=(0.9, 1.02), longest_wait=1.04, runs=8)
    assert gain.doubt("site") == (
        "plan estimates gained nothing where model site was trained (slowdown 0.980 [0.900, 1.020] "
        "of that without, longest wait 1.04 of first come's, 8 runs): train on a later log, or set "
        "[plan] estimates = false; [plan] insist = true gives them all the same"
    )
    short = PlanGain(verdict="not measured").doubt("site")
    assert short.startswith("it is not known whether plan estimates gain anything under model site")
    assert "train on a longer log" in short


@pytest.mark.parametrize("gain", [GAIN, PlanGain(verdict="not measured")])
def test_it_comes_back_from_a_models_metadata(gain):
    metadata = {PLAN_GAIN_ENTRY: json.dumps(asdict(gain))}
    assert plan_gain_in(Path("site.onnx"), metadata) == gain


def test_an_older_model_says_nothing():
    assert plan_gain_in(Path("site.onnx"), {}) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "null", '"gained"', "{}", "[" * 100_000),
        json.dumps({"verdict": "gained"}),
        *(
            json.dumps({**asdict(GAIN), **change})
            for change in (
                {"verdict": "surely"},
                {"verdict": "not measured"},
                {"slowdown": None},
                {"slowdown": "much"},
                {"slowdown": float("nan")},
                {"ci95": None},
                {"ci95": [0.5]},
                {"ci95": [0.5, None]},
                {"longest_wait": float("inf")},
                {"longest_wait": -1.0},
                {"runs": None},
            )
        ),
    ],
)
def test_an_entry_that_is_not_ours_is_refused(text):
    with pytest.raises(ModelSchemaMismatch, match=r"tells of plan estimates .* retrain it"):
        plan_gain_in(Path("site.onnx"), {PLAN_GAIN_ENTRY: text})
