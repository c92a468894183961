"""Attacker: the daemon's own account, taken over, against slurmctld, which reads a file of its.

slurmctld runs job_submit.lua under its locks: what holds that up holds up the cluster.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="takes another user's id: needs root"),
    pytest.mark.skipif(not shutil.which("lua5.3"), reason="no Lua: apt-get install lua5.3"),
]

DEPLOY = Path(__file__).parents[3] / "deploy"
SCRIPT = DEPLOY / "slurm" / "job_submit.lua"
ACCOUNT = 61001
MEMORY = 200_000_000
#: slurmctld's side, and a job by it that is to be accepted as it was submitted.
SUBMISSION = """
slurm = {{SUCCESS = 0, log_info = print}}
local text = io.open("{script}"):read("*a"):gsub('TABLE = "[^"]*"', 'TABLE = "{table}"')
assert((loadstring or load)(text))()
local job = {{script = "x", partition = "{partition}", time_limit = 5}}
assert(slurm_job_submit(job, {{}}, 1001) == 0 and job.site_factor == nil and job.qos == nil)
print("accepted")
"""


@pytest.fixture
def table() -> Iterator[Path]:
    """The table of the script in a root folder laid out by our tmpfiles.d."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    owners = {"root": 0, "slurmrl": ACCOUNT}
    for line in (DEPLOY / "tmpfiles.d" / "slurm-rl.conf").read_text().splitlines():
        if line.startswith(("d ", "f ")):
            kind, name, mode, user, group, _ = line.split()
            path = root / name[1:]
            path.mkdir(parents=True) if kind == "d" else path.touch()
            path.chmod(int(mode, 8))
            os.chown(path, owners[user], owners[group])
    found = re.search(r'^local TABLE = "/(.*)"', SCRIPT.read_text(), re.MULTILINE)
    assert found is not None
    yield root / found[1]
    shutil.rmtree(root)


def as_account(act: Callable[[], object]) -> None:
    """Run it under the account's id; whatever it is refused, it goes on."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(ACCOUNT)
            os.setuid(ACCOUNT)
            act()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def submit(table: Path, partitions: int = 1) -> str:
    """What slurmctld's Lua says, with a second and little memory."""
    done = subprocess.run(
        ["lua5.3", "-"],
        input=SUBMISSION.format(
            script=SCRIPT, table=table, partition=",".join(["batch"] * partitions)
        ),
        capture_output=True,
        text=True,
        timeout=2,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    return done.stdout + done.stderr


def plant_fifo(table: Path) -> None:
    table.unlink(missing_ok=True)
    os.mkfifo(table, 0o666)


def plant_link(table: Path) -> None:
    table.unlink(missing_ok=True)
    os.mkfifo("/tmp/.slurm-rl-attack", 0o666) if not Path("/tmp/.slurm-rl-attack").exists() else 0
    table.symlink_to("/tmp/.slurm-rl-attack")


def move_fifo_over(table: Path) -> None:
    beside = table.with_name("beside")
    os.mkfifo(beside, 0o666)
    beside.replace(table)


@pytest.mark.parametrize("attack", [plant_fifo, plant_link, move_fifo_over])
def test_nothing_that_holds_slurmctld_up_can_be_put_in_the_tables_place(
    table: Path, attack: Callable[[Path], None]
) -> None:
    try:
        as_account(lambda: attack(table))
        assert submit(table) == "accepted\n"
    finally:
        Path("/tmp/.slurm-rl-attack").unlink(missing_ok=True)


@pytest.mark.parametrize("head", ["", "slurm-rl-class-defaults 1\n"])
def test_a_line_of_400_megabytes_costs_no_memory(table: Path, head: str) -> None:
    def write() -> None:
        table.write_text(head)
        os.truncate(table, 400_000_001)

    as_account(write)
    assert table.stat().st_size > 400_000_000
    assert submit(table) == "accepted\n"


@pytest.mark.parametrize(
    "rule", ["x" * 65_000, "partition=batch,a " * 3_600, "qos=a " * 10_000, "=" * 65_000]
)
def test_a_long_rule_does_not_hold_slurmctld_up(table: Path, rule: str) -> None:
    words = f"from 0\nuntil 99999999999\nfactor 1\nrule interactive {rule}\nend\n"
    as_account(lambda: table.write_text(f"slurm-rl-class-defaults 1\n{words}"))
    assert submit(table, partitions=5_000) == "accepted\n"


@pytest.mark.parametrize("factor", ["1e300", "inf", "nan", "-1", "0x7fffffffffff", "1e9 1e9", ""])
def test_no_factor_beyond_slurms_range(table: Path, factor: str) -> None:
    words = f"from 0\nuntil 99999999999\nfactor {factor}\nrule interactive partition=batch\nend\n"
    as_account(lambda: table.write_text(f"slurm-rl-class-defaults 1\n{words}"))
    assert submit(table) == "accepted\n"
