"""Commands of a batch system are bounded in time and in what they print."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.command_process import KillableCommands
from slurm_rl_plugin.errors import BatchSystemUnavailable


def commands(timeout: float = 20.0) -> KillableCommands:
    return KillableCommands(timeout=timeout)


def _words(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def test_input_and_both_outputs_longer_than_a_pipe_get_through() -> None:
    told = "x" * 1_000_000
    program = "import sys; t = sys.stdin.read(); sys.stderr.write(t); sys.stdout.write(t); exit(3)"
    answer = commands().call([sys.executable, "-c", program], stdin=told)
    assert (answer.status, answer.output, answer.errors) == (3, told, told)


@pytest.mark.parametrize("script", ["exec true", "exec <&-; sleep 0.2"])
def test_a_child_that_does_not_read_its_input_is_no_fault(script: str) -> None:
    assert commands().call(["sh", "-c", script], stdin="x" * 1_000_000).status == 0


@pytest.mark.parametrize("script", ["sleep {}", "exec >&- 2>&-; sleep {}", "sleep {} & exit 0"])
def test_a_command_has_to_end_in_time_and_leaves_no_process(script: str) -> None:
    seconds = f"60.{os.getpid()}"
    with pytest.raises(BatchSystemUnavailable, match=r"no answer within 0\.5 s") as caught:
        commands(timeout=0.5).call(["sh", "-c", script.format(seconds)])
    assert isinstance(caught.value.__cause__, subprocess.TimeoutExpired)
    for _ in range(100):  # a killed one takes a moment to go
        left = [each for each in Path("/proc").glob("[0-9]*/cmdline") if seconds in _words(each)]
        if not left:
            break
        time.sleep(0.05)
    assert not left
