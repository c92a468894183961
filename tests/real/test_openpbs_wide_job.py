"""A wide job under a stream of short ones on a real OpenPBS: first, it starts where PBS drains.

The same stream as on Slurm (test_wide_job_under_a_stream); `make test-pbs` asks for it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.pbs.answers.server import PBSNODES, parse_capacity
from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands
from slurm_rl_plugin.batch_systems.pbs.setup import setup_steps
from tests.real.daemon_under_test import running_hook
from tests.real.load import repeating
from tests.real.openpbs_server import InstalledPbs, set_up_server

pytestmark = pytest.mark.real

USER, OWNER = "alice", "bob"
STREAM_SECONDS = 10.0
#: Seconds in which the daemon has put the wide job first.
UNTIL_FIRST = 30.0
#: Several times what a machine takes to drain of jobs of the stream.
DRAINED = 40.0
ON_PBS = '\n[batch_system]\nadapter = "pbs"\n[goals]\nwide_jobs = 3\n'
#: What was for this once; the line as it is shipped, and the one that is for it now.
STARVING_HELP = "help_starving_jobs: true\tALL\nmax_starve: 00:00:10\n"
SHIPPED = "strict_ordering: false\tALL\n"
STRICT = "strict_ordering: true\tALL"


def written(server: InstalledPbs, ordering: str) -> str:
    """sched_config with these lines in the place of its `strict_ordering`."""
    config = (server.files / "sched_config").read_text()
    words, count = re.subn(r"^strict_ordering:.*$", ordering, config, flags=re.MULTILINE)
    assert count == 1
    return words


@pytest.fixture
def server(tmp_path: Path) -> Iterator[InstalledPbs]:
    """Sorted by our score, otherwise as shipped."""
    score, default, *_, formula = setup_steps("", tmp_path / "heartbeat", None, tmp_path)
    with set_up_server([score, default, formula], USER, OWNER) as server:
        server.qmgr("unset server backfill_depth")
        server.qmgr("set server scheduling = True")
        yield server


def processors_of(server: InstalledPbs) -> int:
    commands = PbsCommands(environment=server.env, timeout=10.0)
    return parse_capacity(commands.read_json(PBSNODES))


@contextmanager
def wide_job(server: InstalledPbs, folder: Path) -> Iterator[str]:
    """The daemon, the stream, and the job that asks for all processors."""
    processors = processors_of(server)
    assert processors >= 4, "this test needs four processors, pretended ones will do"
    with (
        running_hook(server, folder, "default", cycle=2, more=ON_PBS),
        # more one-processor jobs than the machine can run, a few always waiting
        repeating(
            lambda: server.submit("-l", "ncpus=1,walltime=60", user=USER, seconds=STREAM_SECONDS),
            lambda: STREAM_SECONDS / processors / 1.5,
        ),
    ):
        server.wait_until(lambda: waiting(server) > 3, 60, "queue")
        asked = f"ncpus={processors},walltime=3600"
        yield server.submit("-l", asked, user=OWNER, seconds=5)


def waiting(server: InstalledPbs) -> int:
    return len(server.run("qselect", "-s", "Q").stdout.split())


def test_a_wide_job_that_is_first_starts_where_pbs_drains(
    server: InstalledPbs, tmp_path: Path
) -> None:
    """Not as PBS is shipped, nor by lines that once helped the starving; by one line at once."""
    with (
        server.changed("sched_config", written(server, SHIPPED + STARVING_HELP)),
        wide_job(server, tmp_path) as wide,
    ):
        server.wait_until(lambda: first_by_score(server) == wide, UNTIL_FIRST, "first place")
        started = len(server.started())
        time.sleep(DRAINED)
        assert server.state(wide) == "Q", "PBS drains as it is shipped: the documents are wrong"
        assert len(server.started()) > started + 20
        assert first_by_score(server) == wide
        assert not server.told(wide, "estimated.start_time")
        with server.changed("sched_config", written(server, STRICT)):
            server.wait_until(lambda: server.state(wide) != "Q", DRAINED, "start of the wide job")
            assert server.told(wide, "estimated.start_time"), "no start was planned"


def first_by_score(server: InstalledPbs) -> str:
    names = server.run("qselect", "-s", "Q").stdout.split()
    return max(names, key=lambda name: float(server.told(name, "Resource_List.rl_score") or 0))
