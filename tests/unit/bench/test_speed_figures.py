"""The table of `make bench` tells goals, floors and what went backwards."""

import json
import subprocess
import sys

import pytest

from bench.speed.figures import __main__ as program
from bench.speed.figures.figure import Figure, against_kept, compared
from bench.speed.figures.measurements import MEASUREMENTS
from bench.speed.figures.trees import TOP, environment

RATE = Figure(name="r", unit="jobs/s", goal=100.0, rate=True)
TIME = Figure(name="t", unit="ms", goal=3.0, floor="sorting")


@pytest.mark.parametrize(
    ("figure", "value", "met"),
    [
        (RATE, 100.0, True),
        (RATE, 99.0, False),
        (TIME, 3.0, True),
        (TIME, 3.1, False),
        (Figure(name="x", unit="s"), 1.0, None),
    ],
)
def test_a_goal_is_a_bound_from_the_better_side(figure, value, met):
    assert figure.met(value) is met


@pytest.mark.parametrize(
    ("figure", "now", "before", "worse"),
    [
        (TIME, [2.0, 2.1, 2.2], [1.0, 1.05, 1.1], True),
        (TIME, [1.0, 1.1, 1.0], [1.0, 1.0, 1.1], False),
        (TIME, [0.5, 3.0, 1.0], [1.0, 1.0, 1.0], False),  # noise
        (RATE, [50.0, 52.0, 51.0], [100.0, 100.0, 100.0], True),
        (RATE, [200.0, 200.0, 200.0], [100.0, 100.0, 100.0], False),
    ],
)
def test_what_went_backwards_beyond_the_noise_is_worse(figure, now, before, worse):
    assert compared(figure, now, before)["worse"] is worse


def test_an_earlier_run_is_compared_by_its_range():
    assert against_kept(TIME, [2.0, 2.2], [1.0, 1.1])["worse"]
    assert not against_kept(TIME, [2.0, 2.2], [1.0, 1.9])["worse"]
    assert against_kept(RATE, [50.0], [100.0])["worse"]
    assert not against_kept(RATE, [100.0], [50.0])["worse"]


def test_every_floor_and_name_is_told_once():
    names = [figure.name for _, figures in MEASUREMENTS.values() for figure in figures]
    assert len(set(names)) == len(names)


@pytest.fixture
def measured(monkeypatch):
    values = {"t": 2.0, "sorting": 1.0}
    sides = []

    def asked(measurement, product):
        sides.append(product)
        return dict(values)

    monkeypatch.setattr(program, "asked", asked)
    monkeypatch.setattr(program, "MEASUREMENTS", {"drawn": (None, (TIME, RATE))})
    monkeypatch.setattr(program, "product_of", lambda commit, folder: folder / commit)
    return values, sides


def test_the_table_shows_goal_floor_and_the_release_in_turn(measured, tmp_path, capsys):
    _, sides = measured
    assert program.main(["--output", str(tmp_path), "--pairs", "2", "--before", "old"]) == 0
    assert [side is None for side in sides] == [False, True, True, False]
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("t "))
    assert row.split() == ["t", "ms", "2", "3", "met", "1", "2", "1.00", "[1.00,", "1.00]"]
    assert "r" not in json.loads((tmp_path / "speed.json").read_text())  # nobody measured it


def test_the_next_run_is_put_beside_the_kept_one(measured, tmp_path, capsys):
    values, _ = measured
    alone = ["--output", str(tmp_path), "--pairs", "1", "--before", ""]
    assert program.main(alone) == 0
    values["t"] = 4.0
    assert program.main(alone) == 1
    said = capsys.readouterr()
    assert "MISSED" in said.out
    assert "2.00 WORSE" in said.out
    assert "worse than kept: t" in said.err


@pytest.mark.parametrize("program", [["-c", "import slurm_rl_plugin"], ["-m", "slurm_rl_plugin"]])
def test_the_other_package_is_the_one_that_is_measured(program, tmp_path):
    package = tmp_path / "slurm_rl_plugin"
    package.mkdir()
    (package / "__init__.py").write_text("print(__file__)")
    (package / "__main__.py").write_text("")
    done = subprocess.run(
        [sys.executable, *program], cwd=TOP, env=environment(tmp_path), capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == str(package / "__init__.py")


def test_measurements_ask_nothing_of_a_package_before_they_measure_it(tmp_path):
    (tmp_path / "slurm_rl_plugin").mkdir()
    (tmp_path / "slurm_rl_plugin" / "__init__.py").write_text("")
    subprocess.run(
        [sys.executable, "-c", "import bench.speed.figures.measurements"], cwd=tmp_path,
        env=environment(tmp_path), check=True,
    )  # fmt: skip


def test_a_release_that_cannot_be_measured_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "slurm_rl_plugin").mkdir()
    (tmp_path / "slurm_rl_plugin" / "__init__.py").write_text("")
    asked = program.asked
    monkeypatch.setattr(
        program, "asked", lambda what, product: asked(what, product) if product else {"t": 1.0}
    )
    found, before = program.measured("decide", tmp_path, 3)
    assert (found, before) == ({"t": [1.0, 1.0, 1.0]}, {})
    said = capsys.readouterr().err
    assert said.count(f"decide: not measured in {tmp_path.name} (") == 1


def test_an_unknown_measurement_is_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        program.main(["--only", "nothing"])
    assert stopped.value.code == 2
    assert "no measurement nothing" in capsys.readouterr().err
