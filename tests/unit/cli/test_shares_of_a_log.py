"""`--shares` beside the accounts of a log: those that do not meet are named."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.cli.log_arguments import add_log_options, read_named_logs
from slurm_rl_plugin.evaluation.named_log import LogOptions
from slurm_rl_plugin.simulator.workloads.generators import generated_log


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Jobs of the accounts 1 to 3."""
    path = tmp_path / "site.swf"
    drawn = generated_log("mmn:jobs=60,processors=4,seed=2")
    three = replace(drawn, accounts=("1", "2", "3"), account=np.arange(len(drawn)) % 3)
    write_swf(path, three, comments=["MaxProcs: 4"])
    return str(path)


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ("1=.5,2=.2,3=.3", ""),
        ("1=.5,_other=.5", ""),
        ("1=.5,2=.2,3=.2,9=.1", "no job is of 9."),
        ("1=.5,9=.5", "no job is of 9; jobs of 2, 3 have no share."),
        ("1=.5,2=.5", "jobs of 3 have no share."),
        ("1=.5,_other=.3,8=.1,9=.1", "no job is of 8, 9."),
    ],
)
def test_accounts_that_do_not_meet_are_named(
    shares: str, said: str, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    add_log_options(parser)
    read_named_logs([log], LogOptions.of(parser.parse_args(["--shares", shares])))
    expected = f"slurm-rl: --shares and {log}: {said}\n" if said else ""
    assert capsys.readouterr().err == expected


def test_many_are_counted(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_log_options(parser)
    shares = ",".join(f"a{place}=.1" for place in range(10))
    read_named_logs([log], LogOptions.of(parser.parse_args(["--shares", shares])))
    assert "a6, a7 and 2 more; jobs of 1, 2, 3 have no share." in capsys.readouterr().err
