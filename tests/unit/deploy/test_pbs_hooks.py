"""The hooks for PBS under its own interpreter's constraints: nothing ever gets out of them."""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.pbs.setup import STALE_SECONDS, setup_steps

TOP = Path(__file__).resolve().parents[3]
HOOKS = TOP / "deploy" / "pbs"
RUNNER = TOP / "tests" / "fakes" / "pbs_hook_runner.py"


def run_hook(name, folder, config, job=None, **event):
    path = folder / "config.json"
    if config is not None:
        path.write_text(config if isinstance(config, str) else json.dumps(config))
    described = {"config": str(path), "pbs_exec": str(folder / "exec"), "job": job, **event}
    (folder / "event.json").write_text(json.dumps(described))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-O", RUNNER, HOOKS / f"{name}.py", folder / "event.json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


SHIPPED = json.loads((HOOKS / "slurm_rl_class.json").read_text())


@pytest.mark.parametrize(
    ("job", "score"),
    [
        ({}, 1000.0),
        ({"interactive": 1}, 8e6),
        ({"queue": "debug"}, 8e6),
        ({"queue": "debugger"}, 1000.0),
        ({"Resource_List": {"walltime": 900}}, 4e6),
        ({"Resource_List": {"walltime": "00:15:00"}}, 4e6),
        ({"Resource_List": {"walltime": "00:15:01"}}, 1000.0),
        ({"queue": None, "interactive": None}, 1000.0),
    ],
)
def test_a_new_job_gets_the_score_of_its_class(tmp_path, job, score):
    told = run_hook("slurm_rl_class", tmp_path, SHIPPED, job)
    assert told["job"]["rl_score"] == score
    assert (told["ended"], told["log"]) == ("accepted", [])


@pytest.mark.parametrize(
    "config",
    [
        None,
        "",
        "{",
        "[]",
        {"classes": [{"name": "("}]},
        {"classes": [7]},
        {"classes": [{"walltime_at_most": "x"}]},
    ],
)
def test_whatever_is_wrong_the_job_is_accepted_with_the_default(tmp_path, config):
    job = {"Job_Name": "a", "Resource_List": {"walltime": "what"}}
    told = run_hook("slurm_rl_class", tmp_path, config, job)
    assert told["ended"] == "accepted"
    assert "rl_score" not in told["job"]
    assert len(told["log"]) == 1


def test_not_even_a_broken_log_rejects_a_job(tmp_path):
    told = run_hook("slurm_rl_class", tmp_path, "{", {}, broken_log=True)
    assert told["ended"] == "accepted"
    assert run_hook("slurm_rl_dead_man", tmp_path, "{", broken_log=True)["ended"] == "accepted"


@pytest.mark.parametrize("score", ["NaN", "Infinity", "1e39", "0", "-5", "true", '"9"', "null"])
def test_a_senseless_score_is_never_given(tmp_path, score):
    told = run_hook("slurm_rl_class", tmp_path, f'{{"default": {score}}}', {})
    assert (told["ended"], "rl_score" in told["job"]) == ("accepted", False)


@pytest.fixture
def qmgr(tmp_path):
    """A qmgr that records its changes, and prints the formula."""
    program = tmp_path / "exec" / "bin" / "qmgr"
    program.parent.mkdir(parents=True)
    (tmp_path / "formula").write_text("1000*rl_score + asinh(queue_priority)")
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$2" = "list server job_sort_formula" ]; then\n'
        f'    printf "Server head\\n    job_sort_formula = %s\\n\\n" "$(cat {tmp_path}/formula)"\n'
        f'else printf "%s\\n" "$@" >> {tmp_path}/told; fi\n'
    )
    program.chmod(0o755)
    return program


def dead_man(tmp_path, age, **settings):
    """Run the hook with a heartbeat of that age; the words for qmgr, one a line."""
    heartbeat = tmp_path / "heartbeat"
    if age is not None:
        heartbeat.touch()
        os.utime(heartbeat, (time.time() - age,) * 2)  # noqa: TID251
    config = {"heartbeat": str(heartbeat), "stale_seconds": 20, "formula": "", **settings}
    answer = run_hook("slurm_rl_dead_man", tmp_path, config)
    assert answer["ended"] == "accepted"
    told = tmp_path / "told"
    return answer, told.read_text().splitlines() if told.exists() else []


def test_a_silent_daemon_gives_the_formula_back_once(tmp_path, qmgr):
    answer, told = dead_man(tmp_path, 21)
    assert told == ["-c", "unset server job_sort_formula"]
    assert "no heartbeat" in answer["log"][0]
    assert dead_man(tmp_path, None)[1] == told  # and not again every few seconds
    assert dead_man(tmp_path, 21)[1] == told * 2  # but again when a later daemon is killed


def test_the_sites_own_formula_comes_back(tmp_path, qmgr):
    told = dead_man(tmp_path, 99, formula='queue_priority + "x"')[1]
    assert told == ["-c", "set server job_sort_formula = \"queue_priority + 'x'\""]


@pytest.mark.parametrize("formula", ["", "eligible_time", "my_rl_score_2"])
def test_a_formula_that_is_not_ours_stays(tmp_path, qmgr, formula):
    """The daemon may have been in shadow mode, or root have set another formula since."""
    (tmp_path / "formula").write_text(formula)
    answer, told = dead_man(tmp_path, 21)
    assert told == []
    assert "no change" in answer["log"][0]
    assert dead_man(tmp_path, None)[0]["log"] == []  # and is not looked at every few seconds


def test_a_long_formula_is_ours_too(tmp_path, qmgr):
    """qmgr goes on with it in a line that is indented."""
    (tmp_path / "formula").write_text("asinh(ncpus) + 1000*rl_\n\tscore")
    assert dead_man(tmp_path, 21)[1] == ["-c", "unset server job_sort_formula"]


def test_a_formula_that_cannot_be_looked_at_is_taken_for_ours(tmp_path, qmgr):
    (tmp_path / "formula").unlink()
    program = qmgr.read_text().replace(
        'job_sort_formula" ]; then', 'job_sort_formula" ]; then exit 3'
    )
    qmgr.write_text(program)
    assert dead_man(tmp_path, 21)[1] == ["-c", "unset server job_sort_formula"]


def test_the_hook_waits_as_long_as_systemd_does():
    """A cycle with a slow server takes minutes, without a heartbeat."""
    unit = (TOP / "deploy" / "systemd" / "slurm-rl.service").read_text()
    assert f"WatchdogSec={STALE_SECONDS // 60}min" in unit.splitlines()
    shipped = json.loads((HOOKS / "slurm_rl_dead_man.json").read_text())
    (step,) = [s for s in setup_steps("", Path("/s/heartbeat"), None, HOOKS) if "silent" in s.does]
    (echo,) = [line for line in step.lines if "heartbeat" in line]
    printed = json.loads(shlex.split(echo.partition("echo ")[2])[0])
    assert shipped["stale_seconds"] == printed["stale_seconds"] == STALE_SECONDS
    assert f"that is {STALE_SECONDS} s old" in (TOP / "docs" / "pbs.md").read_text()


@pytest.mark.parametrize("age", [None, 0, 15])
def test_a_daemon_that_lives_or_has_left_is_let_be(tmp_path, qmgr, age):
    answer, told = dead_man(tmp_path, age)
    assert (told, answer["log"]) == ([], [])


def test_a_qmgr_that_fails_is_tried_again(tmp_path, qmgr):
    qmgr.write_text("#!/bin/sh\nexit 1\n")
    answer, _ = dead_man(tmp_path, 99)
    assert "CalledProcessError" in answer["log"][0]
    assert (tmp_path / "heartbeat").exists()
