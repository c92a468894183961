"""Options of workers: what sbatch is asked for, and what is refused in one sentence."""

import argparse
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.batch_systems.slurm.job_arrays.arrays import ArraySettings
from slurm_rl_plugin.batch_systems.slurm.job_arrays.worker import WorkerReport
from slurm_rl_plugin.batch_systems.slurm.job_arrays.workplace import SlurmArrays
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.cli.train.place import add_place_options, array_settings, cost_sentence


def settings(tmp_path, *words):
    parser = argparse.ArgumentParser()
    add_place_options(parser)
    options = parser.parse_args(["--on", "slurm", *words])
    return array_settings(options, tmp_path / "m.onnx")


def test_defaults(tmp_path):
    found = settings(tmp_path)
    assert (found.workers, found.minutes, found.processors, found.options) == (8, 60, 1, {})
    assert found.folder == tmp_path / "m.onnx.workers"


def test_options_go_to_sbatch_as_they_are(tmp_path):
    words = ["partition=night", "account=physics", "time=1-00:30:01", "cpus-per-task=4"]
    words += ["mem=4G", "exclusive", "--qos=low", "mail_user=a@b"]
    found = settings(tmp_path, *(f"--slurm-option={word}" for word in words), "--workers", "30")
    assert (found.workers, found.minutes, found.processors) == (30, 24 * 60 + 31, 4)
    assert found.options == {
        "partition": "night",
        "account": "physics",
        "mem": "4G",
        "exclusive": True,
        "qos": "low",
        "mail-user": "a@b",
    }


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--on", "slurm", "--slurm-option", "array=1-9"], "the workers set array themselves"),
        (["--on", "slurm", "--slurm-option", "time=soon"], "'soon' is no span of time"),
        (["--on", "slurm", "--slurm-option", "cpus-per-task=0"], "give a number from 1 on"),
        (["--on", "slurm", "--slurm-option", "=3"], "write such as partition=batch"),
        (["--on", "slurm", "--slurm-option", "mem="], "write such as partition=batch"),
        (["--on", "slurm", "--work-folder", "nowhere"], "nowhere is no folder"),
        (["--workers", "3"], "--workers is for --on slurm"),
        (["--slurm-option", "mem=1G"], "--slurm-option is for --on slurm"),
        (["--work-folder", "."], "--work-folder is for --on slurm"),
        (["--on", "slurm"], "sacct cannot be found"),
    ],
)
def test_faults_are_said_before_any_log_is_read(tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["train", "none.swf", "-o", "m.onnx", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert sentence in err
    assert list(tmp_path.iterdir()) == []


seconds = st.floats(0.001, 1e4)


@given(st.integers(1, 500), st.integers(1, 64), seconds, seconds, seconds)
def test_batches_use_no_more_workers_than_allowed(items, workers, started, loaded, worked):
    place = SlurmArrays(ArraySettings(folder=Path("nowhere"), workers=workers))
    first = place._batch_size(items)
    assert -(-items // first) <= workers
    report = WorkerReport(
        results=[0] * first, refused=None, started=started, loaded=loaded, worked=worked
    )
    place.cost.add([report], 1.0)
    size = place._batch_size(items)
    assert first <= size <= items
    # a worker is given as much work as its start costs, where there is so much
    enough = size * place.cost.seconds_of_item >= place.cost.overhead * 0.999
    assert enough or size == items
    assert "overhead per worker" in cost_sentence(place.cost)
