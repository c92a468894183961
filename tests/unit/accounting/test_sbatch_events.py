"""Event files of a Slurm simulator: what each line asks for, and what is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.accounting.sbatch.reader import SbatchReader
from slurm_rl_plugin.accounting.slurm.options import asked_of, cut_options
from slurm_rl_plugin.errors import AccountingLogError

HEAD = "-dt 10 -e submit_batch_job | -sim-walltime 60 --uid=ann"


def read(folder: Path, *lines: str) -> tuple[JobLog, ReadReport]:
    path = folder / "week.events"
    path.write_text("\n".join(lines))
    return SbatchReader().read(path)


@pytest.mark.parametrize(
    ("words", "processors", "nodes", "amounts"),
    [
        ("", 1, 0, {"cpus": 1}),
        ("-N 1 -n 32 --mem=500G", 32, 1, {"cpus": 32, "memory": 512000}),
        ("-N 2 -n 18 --mem=250G", 18, 2, {"cpus": 18, "memory": 512000}),
        ("-N 2-4 -c 3", 6, 2, {"cpus": 6}),
        ("-N 4 -n 2", 2, 2, {"cpus": 2}),
        ("-n 8 --ntasks-per-node=3", 8, 3, {"cpus": 8}),
        ("-N 2 --ntasks-per-node 5 -c2", 20, 2, {"cpus": 20}),
        ("-n 4 --mem-per-cpu=2000", 4, 0, {"cpus": 4, "memory": 8000}),
        ("-n 4 --mem=512K", 4, 0, {"cpus": 4, "memory": 0.5}),
        ("-N 2 --gres=gpu:2", 2, 2, {"cpus": 2, "gpus": 4}),
        ("--gres=gpu", 1, 0, {"cpus": 1, "gpus": 1}),
        ("--gres gpu:a100:2", 1, 0, {"cpus": 1, "gpus": 2, "gres/gpu:a100": 2}),
        ("--gres=gpu:a100", 1, 0, {"cpus": 1, "gpus": 1, "gres/gpu:a100": 1}),
        ("--gres=gpu:1 --gres=gpu:2", 1, 0, {"cpus": 1, "gpus": 2}),
        ("--gres=shard:3,gpu:1", 1, 0, {"cpus": 1, "gpus": 1, "gres/shard": 3}),
        ("--gpus=h100:6 -n 2", 2, 0, {"cpus": 2, "gpus": 6, "gres/gpu:h100": 6}),
        ("-N 2 --gpus-per-node=3", 2, 2, {"cpus": 2, "gpus": 6}),
        ("-n 4 -c 2 --gpus-per-task=1 --mem-per-gpu=1G", 8, 0,
         {"cpus": 8, "gpus": 4, "memory": 4096}),
        # rates, as slurmctld 22.05.8 counts them
        ("-n 4 --gpus-per-socket=1 --sockets-per-node=2", 4, 0, {"cpus": 4, "gpus": 2}),
        ("-N 2 -n 4 --gpus-per-socket=a100:1 -B 2:8", 4, 2,
         {"cpus": 4, "gpus": 4, "gres/gpu:a100": 4}),
        ("-n 4 --gpus-per-socket=1 -B *:8", 4, 0, {"cpus": 4, "gpus": 1}),
        ("--gpus=3 --cpus-per-gpu=4 --mem-per-cpu=10", 12, 0,
         {"cpus": 12, "gpus": 3, "memory": 120}),
        ("-n 4 --gpus=3 --cpus-per-gpu=1", 4, 0, {"cpus": 4, "gpus": 3}),
        ("-N 2 --gpus-per-node=2 --cpus-per-gpu=4", 16, 2, {"cpus": 16, "gpus": 4}),
        ("--ntasks-per-gpu=2 --gpus=3", 6, 0, {"cpus": 6, "gpus": 3}),
        ("-n 6 --ntasks-per-gpu=2", 6, 0, {"cpus": 6, "gpus": 3}),
        ("--gpus=4 --gpus-per-task=2 -c 3", 6, 0, {"cpus": 6, "gpus": 4}),
        ("-n 2 --tres-per-task=cpu:4,gres/gpu:a100=1,license/x:3", 8, 0,
         {"cpus": 8, "gpus": 2, "gres/gpu:a100": 2, "license/x": 6}),
        ("-L matlab:2,spice", 1, 0, {"cpus": 1, "license/matlab": 2, "license/spice": 1}),
    ],
)  # fmt: skip
def test_what_options_ask_for(words, processors, nodes, amounts):
    asked = asked_of(cut_options(words.split())[0])
    assert (asked.processors, asked.nodes, asked.amounts) == (processors, nodes, amounts)


@pytest.mark.parametrize(
    ("words", "goes"),
    [
        ("-n 4 --mem-per-cpu=1G", True),
        ("-n 4 --gpus=4 --mem-per-gpu=1G", True),  # as slurmctld: where the GPUs are
        ("-N 2 -n 4 --gpus=4 --mem-per-gpu=1G", False),
        ("-n 4 --gpus=4 --mem=4G", False),
    ],
)
def test_whose_memory_is_where_the_cpus_are(words, goes):
    assert asked_of(cut_options(words.split())[0]).memory_per_cpu is goes


@pytest.mark.parametrize(
    ("words", "exclusive"),
    [
        ("--exclusive", True),
        ("--exclusive=user", False),
        ("--mem=0", True),
        ("--mem=1", False),
    ],
)
def test_who_wants_nodes_for_itself(words, exclusive):
    assert asked_of(cut_options([words])[0]).exclusive is exclusive


def test_a_log_tells_what_its_jobs_ask_of_nodes(tmp_path):
    log, _ = read(
        tmp_path,
        f"{HEAD} -J jobid_7 -N 2 -n 8 -c 2 --mem-per-cpu=1G -C big&fast -p main a.sh --exclusive",
        f"{HEAD} --gres=gpu:a100:1 --exclusive b.sh",
    )
    asked = log.requests
    assert asked.names == ("cpus", "memory", "gpus", "gres/gpu:a100")
    np.testing.assert_array_equal(asked.total, [[16, 16384, 0, 0], [1, 0, 1, 1]])
    assert asked.nodes.tolist() == [2, 0]
    assert asked.cpus_per_task.tolist() == [2, 1]
    assert asked.memory_per_cpu.tolist() == [True, False]
    assert asked.exclusive.tolist() == [False, True]
    assert [asked.constraints[each] for each in asked.constraint] == ["big&fast", ""]
    assert log.job_id.tolist() == [7, 2]
    assert log.processors.tolist() == [16, 1]


def test_a_job_without_a_run_time_runs_to_its_limit(tmp_path):
    log, report = read(
        tmp_path,
        "-dt 1 -e submit_batch_job | --uid=ann -t 2:00 a.sh",
        "-dt 2 -e submit_batch_job | --uid=ann a.sh",
        "-dt 3 -e submit_batch_job | --uid=ann -sim-walltime -1 a.sh",
    )
    assert log.run_time.tolist() == [120.0]
    assert report.dropped == {"no run time": 1, "negative run time": 1}


def test_accounts_are_those_that_lines_name_else_users(tmp_path):
    log, _ = read(tmp_path, f"{HEAD} a.sh", f"{HEAD} -A physics a.sh")
    assert [log.accounts[each] for each in log.account] == ["ann", "physics"]


def test_what_a_job_was_submitted_with_does_not_tell_how_long_it_runs(tmp_path):
    log, _ = read(tmp_path, f"{HEAD} -jid 5 -t 1 'a b.sh'")
    assert log.submit_line == ("sbatch --uid=ann -t 1 a b.sh",)
    assert log.job_id.tolist() == [5]


def test_remarks_and_other_events_are_no_jobs(tmp_path):
    log, report = read(tmp_path, "# a week", "", f"{HEAD} a.sh", "-dt 70 -e node_down | n1")
    assert len(log) == 1
    assert (report.read, report.other_records) == (1, {"node_down": 1})


@pytest.mark.parametrize(
    ("line", "field", "words"),
    [
        ("what is this", "-dt", "no event"),
        ("-dt soon -e submit_batch_job | a.sh", "-dt", "'soon' is no number"),
        (f"{HEAD.replace('60', 'long')} a.sh", "-sim-walltime", "'long' is no number"),
        (f"{HEAD} -t never a.sh", "--time", "'never' is no time limit"),
        (f"{HEAD} -n many a.sh", "--ntasks", "'many' is no number"),
        (f"{HEAD} -n 9000m -c 9000m a.sh", "--ntasks", "cpus-per-task for [0-9]+ CPUs: give fewer"),
        (f"{HEAD} --mem=lots a.sh", "--mem", "'lots' is no size"),
        (f"{HEAD} --gres=gpu:a:b a.sh", "--gres", "no generic resource"),
        (f"{HEAD} -L :2 a.sh", "--licenses", "no licence"),
        (f"{HEAD} --frob a.sh", "sbatch", "--frob is not known"),
        (f"{HEAD} 'a.sh", "sbatch", "quotes"),
    ],
)
def test_a_line_that_is_not_understood_is_named(tmp_path, line, field, words):
    with pytest.raises(AccountingLogError, match=words) as caught:
        read(tmp_path, f"{HEAD} a.sh", line)
    assert (caught.value.line, caught.value.field) == (2, field)


def test_a_file_without_jobs_is_refused(tmp_path):
    with pytest.raises(AccountingLogError, match="holds no submit_batch_job"):
        read(tmp_path, "-dt 70 -e node_down | n1")


def test_a_published_week_of_a_university_cluster():
    folder = os.environ.get("SLURM_RL_TRACES")
    path = Path(folder or ".") / "ubhpc" / "workload_week.events.gz"
    if folder is None or not path.exists():
        pytest.skip("SLURM_RL_TRACES names no folder with ubhpc/workload_week.events.gz")
    log, report = read_log(path)
    assert (report.read, report.dropped) == (19579, {"never ran": 27})
    asked = log.requests
    assert asked.total.max(axis=0).tolist() == [256.0, 12_000_000.0, 8.0]
    assert np.count_nonzero(asked.of("gpus")) == 73
    assert np.count_nonzero(asked.of("memory") == 0) == 425
    assert asked.exclusive.sum() == 177
    assert asked.constraints == ("", "CPU-Gold-6130", "CPU-Gold-6230")
    assert np.isnan(log.start).all()
