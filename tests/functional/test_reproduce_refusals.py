"""What `slurm-rl reproduce` cannot run is one sentence that names what to give, exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functional.typed import Typed

CTC, SDSC, LPC = (
    f"{each}.swf.gz"
    for each in ("CTC-SP2-1996-3.1-cln", "SDSC-SP2-1998-4.2-cln", "LPC-EGEE-2004-1.2-cln")
)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # no logs are named
        ("economic", "economic needs CTC-SP2"),
        ("backfilling-predictions", "give the directory of the traces"),
        ("site-utilities", "directory of LPC-EGEE"),
        ("rlscheduler", "SLURM_RL_TRACES"),
        ("start-times", "give JOBS.parquet"),
        ("replayed-starts", "give their folder as TRACES"),
        # the folder holds none
        ("economic FOLDER", f"holds no {CTC}"),
        ("backfilling-predictions FOLDER", f"holds no {CTC}"),
        ("heldout FOLDER", SDSC),
        ("ablation FOLDER", SDSC),
        ("site-utilities FOLDER", LPC),
        ("heuristics FOLDER --seeds 2", LPC),
        ("rlscheduler FOLDER", "lublin_256.swf.gz"),
        ("reactive-grids nowhere --quick", "does not exist"),
        # seeds
        ("economic FOLDER --seeds 1", "--seeds 1"),
        ("site-utilities FOLDER --seeds 1", "at least 2"),
        ("learning-agents --seeds 1 --quick", "--seeds 1"),
        ("reactive-grids --seeds 1", "--seeds 1"),
        ("heuristics --seeds 1", "--seeds 1"),
        ("switchback --seeds 1", "--seeds 1"),
        ("rlscheduler --seeds 3", "--seeds is for heuristics"),
        ("rlscheduler . --search --seeds 0", "--seeds 0"),
        ("backfilling-predictions FOLDER --seeds 3", "--seeds is not for backfilling-predictions"),
        # options of other studies
        ("economic FOLDER --policy some.onnx", "--policy is not for economic"),
        ("non-markovian --policy model.onnx", "--policy is not for non-markovian"),
        ("switchback --policy model.onnx", "--policy is not for switchback"),
        ("learning-agents --policy model.onnx --quick", "takes no traces and no --policy"),
        ("learning-agents FOLDER --quick", "takes no traces and no --policy"),
        ("backfilling-predictions FOLDER --search", "--search is for rlscheduler"),
        ("heuristics --search", "--search is for rlscheduler"),
        ("heuristics --quick", "--models, --policy and --quick are for"),
        ("rlscheduler --quick", "--models, --policy and --quick are for"),
        # a model that the study cannot use
        (
            "backfilling-predictions FOLDER --policy policy_models/responsive-reserve.onnx",
            "looks at no past runs",
        ),
    ],
)
def test_one_sentence_says_what_to_give(
    words: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    typed: Typed,
) -> None:
    monkeypatch.delenv("SLURM_RL_TRACES", raising=False)
    status, out, err = typed("reproduce", *(words.replace("FOLDER", str(tmp_path)).split()))
    assert (status, out) == (2, "")
    [sentence] = [each for each in err.splitlines() if "left out" not in each]
    assert said in sentence
