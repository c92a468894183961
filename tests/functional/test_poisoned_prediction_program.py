"""The program that measures what a place costs, started small; its exact answer is not pinned."""

import json
import re

import pytest

from bench.speed.poisoned_prediction import main
from slurm_rl_plugin.features.history import columns as history_columns
from slurm_rl_plugin.features.history.run_history import speaks_for

SMALL = ("--queues", "1", "--requests", "1", "--most", "10")


def test_a_place_costs_what_is_asked_for_and_without_the_rule_next_to_nothing(capsys):
    main([*SMALL, "--json"])
    result = json.loads(capsys.readouterr().out)
    among_others = [row for row in result["rows"] if not row["newcomers"]]
    assert [row["dummies"] for row in among_others] == ["alike", "1 processor"]
    for row in among_others:
        asked = row["processors"] * row["time_limit"]
        assert row["price_rule"] == pytest.approx(row["rule"] / asked)
        assert 1.0 <= row["price_rule"] < 1.01
        assert 0.0 < row["price_without"] < 0.001
    assert result["least"]["rule"] == min(row["price_rule"] for row in among_others)
    assert history_columns.speaks_for is speaks_for  # switched off in the program alone


def test_it_prints_a_table(capsys):
    main(SMALL)
    head, *rows, least = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["PROCS", "HOURS", "DUMMIES"]
    assert len(rows) == 4
    assert re.match(r" +64 +24 alike +others +5,529,\d{3} +1 +\d+ +\S+$", rows[0])
    assert least.startswith("least price: {'rule': '1'")
