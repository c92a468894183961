"""job_submit.lua on a real Slurm: a factor at submission, and no harm from any fault of its."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.daemon_under_test import running_hook, write_configuration
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.site_factors import site_factors
from tests.real.slurm_releases import SlurmRelease

pytestmark = pytest.mark.real

SCRIPT = Path(__file__).parents[2] / "deploy" / "slurm" / "job_submit.lua"
PLACE = '"/var/lib/slurm-rl-class-defaults/table"'
HEAD = "slurm-rl-class-defaults 1\n"
RULE = "rule interactive time_limit_at_most=60\n"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the script looks for its table."""
    return tmp_path_factory.mktemp("defaults") / "class-defaults"


def script_for(table: Path) -> str:
    text = SCRIPT.read_text()
    assert PLACE in text
    text = text.replace(PLACE, f'"{table}"')
    for name in ("GIVE_BATCH_QOS", "GIVE_LICENSES"):
        assert f"{name} = false" in text
        text = text.replace(f"{name} = false", f"{name} = true")
    return text


@pytest.fixture(scope="module")
def cluster(release: SlurmRelease | None, table: Path) -> Iterator[PrivateSlurm]:
    """One processor, taken for good; the script is beside slurm.conf."""
    skip_without_daemons(release)
    plan = ClusterPlan(
        nodes=1,
        processors_per_node=1,
        accounts=ACCOUNTS,
        options={"AccountingStorageEnforce": "associations,limits,qos"},
        lines=("JobSubmitPlugins=lua", "Licenses=slot:8"),
        files={"job_submit.lua": script_for(table)},
    )
    with running_slurm(plan, release) as cluster:
        cluster.run("sacctmgr", "-i", "add", "qos", "batch")
        users = ("where", "name=alice,bob")
        cluster.run("sacctmgr", "-i", "modify", "user", *users, "set", "qos+=batch")
        cluster.submit(user="bob", account="biology", minutes=60, seconds=3600)
        yield cluster


@pytest.fixture
def slurm(cluster: PrivateSlurm, table: Path) -> Iterator[PrivateSlurm]:
    """The cluster without a table and without waiting jobs."""
    yield cluster
    table.unlink(missing_ok=True)
    cluster.run("scancel", "--state=PENDING", "--user=alice")
    waiting = ("squeue", "-h", "-u", "alice")
    cluster.wait_until(lambda: not cluster.run(*waiting).stdout, 60, "an empty queue")


def submit(cluster: PrivateSlurm, minutes: int) -> int:
    return cluster.submit(user="alice", account="physics", minutes=minutes)


def factor_at_once(cluster: PrivateSlurm, minutes: int = 1) -> int:
    """SiteFactor of a job that was submitted just now; sprio may list it a moment later."""
    job = submit(cluster, minutes)
    cluster.wait_until(lambda: job in site_factors(cluster), 10, f"job {job} in sprio")
    return site_factors(cluster)[job]


def a_table(factor: int, until: float | None = None) -> str:
    now = datetime.now(UTC).timestamp()
    return (
        f"{HEAD}from {now:.0f}\nuntil {now + 60 if until is None else until:.0f}\n"
        f"factor {factor}\nbatch_qos batch\n{RULE}end\n"
    )


def qos_of(cluster: PrivateSlurm, job: int) -> str:
    return cluster.run("squeue", "-h", "-j", str(job), "-o", "%q").stdout.strip()


def licenses_of(cluster: PrivateSlurm, job: int) -> str:
    return cluster.run("squeue", "-h", "-j", str(job), "-o", "%W").stdout.strip()


def test_new_jobs_get_what_the_table_says_of_their_class(slurm: PrivateSlurm, table: Path) -> None:
    table.write_text(a_table(4321))
    assert factor_at_once(slurm) == 4321
    assert factor_at_once(slurm, minutes=30) == 0
    assert qos_of(slurm, submit(slurm, 30)) == "batch"
    assert qos_of(slurm, submit(slurm, 1)) == "normal"
    named = slurm.submit("--qos=normal", user="alice", account="physics", minutes=30)
    assert qos_of(slurm, named) == "normal"  # what the user says stands


def test_batch_jobs_ask_for_a_licence_a_processor_and_unknown_ones_get_nothing(
    slurm: PrivateSlurm, table: Path
) -> None:
    table.write_text(a_table(77).replace("batch_qos batch", "batch_license slot"))
    assert licenses_of(slurm, submit(slurm, 30)) == "slot:1"
    assert licenses_of(slurm, submit(slurm, 1)) in ("", "(null)")
    table.write_text(a_table(77).replace("end\n", "batch_license slot\nrule unknown\nend\n"))
    unknown = submit(slurm, 30)
    assert qos_of(slurm, unknown) == "normal"
    assert licenses_of(slurm, unknown) in ("", "(null)")


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "no table at all \0 \xff\n" * 50,
        HEAD + "factor 77\n" + RULE + "end\n",
        HEAD + f"from 0\nuntil 99999999999\nfactor many\n{RULE}end\n",
        HEAD + f"from 99999999990\nuntil 99999999999\nfactor 77\n{RULE}end\n",
        HEAD + f"from 0\nuntil 99999999999\nfactor 77\n{RULE}",
        HEAD + f"from 0\nuntil 99999999999\nfactor 77\nrule interactive moon=full\n{RULE}end\n",
        HEAD + f"from 0\nuntil 99999999999\nfactor 77\n{RULE}end\n" + "x\n" * 2000,
        "old",
    ],
    ids=[
        *("missing", "empty", "garbage", "no-times", "no-number", "of-the-future", "cut-off"),
        *("unknown-condition", "too-long", "too-old"),
    ],
)
def test_without_a_good_table_jobs_are_accepted_as_they_are(
    slurm: PrivateSlurm, table: Path, content: str | None
) -> None:
    if content == "old":
        content = a_table(77, until=datetime.now(UTC).timestamp() - 60)
    if content is not None:
        table.write_text(content)
    factor = factor_at_once(slurm)
    # cut at its longest, a table that goes on behind its end may count or not, but never harms
    assert factor == 0 or (content is not None and len(content) > 2000 and factor == 77)


@pytest.mark.parametrize(
    "fault",
    [
        ("local found = read_table()", "local found = nothing.at_all"),
        ("local function give(job, partitions)", "local function give(job, partitions) end end"),
        ("  slurm_rl_class_defaults(job, partitions)\n", "  error('of the script')\n"),
    ],
    ids=["runtime", "syntax", "outside"],
)
def test_a_fault_of_the_script_refuses_no_job(
    slurm: PrivateSlurm, table: Path, fault: tuple[str, str]
) -> None:
    table.write_text(a_table(77))
    place = slurm.directory / "etc" / "job_submit.lua"
    sound = place.read_text()
    assert fault[0] in sound
    try:
        place.write_text(sound.replace(*fault, 1))
        assert factor_at_once(slurm) in (0, 77)  # 77: of the script that was sound before
    finally:
        place.write_text(sound)


def test_without_the_script_slurmctld_does_not_start(slurm: PrivateSlurm) -> None:
    place = slurm.directory / "etc" / "job_submit.lua"
    sound = place.read_text()
    slurm.kill("slurmctld", signal.SIGKILL)
    place.unlink()
    try:
        said = slurm.run("slurmctld", "-D", "-i", check=False, timeout=30)
    finally:
        place.write_text(sound)
        slurm.restart("slurmctld")
    assert said.returncode != 0
    assert "job_submit" in said.stdout + said.stderr


DAEMON = "soonest_cycle = 600\nclass_defaults_file = "


def test_an_interactive_job_stands_before_batch_at_once_and_a_stop_takes_all_back(
    slurm: PrivateSlurm, table: Path, tmp_path: Path
) -> None:
    batch = [submit(slurm, 30) for _ in range(3)]
    first = submit(slurm, 1)
    more = f'{DAEMON}"{table}"'
    with running_hook(slurm, tmp_path, "interactive-first", cycle=600, more=more) as hook:
        job = submit(slurm, 1)  # the next cycle is ten minutes away
        slurm.wait_until(lambda: job in site_factors(slurm), 10, "the new job in sprio")
        listed = slurm.run("sprio", "-h", "-o", "%i %Y").stdout.split()
        priority = {int(a): int(b) for a, b in zip(listed[::2], listed[1::2], strict=True)}
        assert max(priority[each] for each in batch) < priority[job] < priority[first]
        assert hook.stop() == 0
    assert set(site_factors(slurm).values()) == {0}
    assert table.read_text() == ""


def test_what_a_killed_daemon_left_is_taken_back_by_the_watchdog(
    slurm: PrivateSlurm, table: Path, tmp_path: Path
) -> None:
    submit(slurm, 30)
    submit(slurm, 1)
    more = f'{DAEMON}"{table}"'
    with running_hook(slurm, tmp_path, "interactive-first", cycle=600, more=more) as hook:
        hook.process.kill()
        hook.process.wait(timeout=10)
    assert factor_at_once(slurm) > 0  # the table is still good
    configuration = write_configuration(
        tmp_path, "interactive-first", mode="active", cycle=600, more=more
    )
    words = ("release", "--unattended", "--config", str(configuration))
    command = (sys.executable, "-m", "slurm_rl_plugin.cli.entry", *words)
    done = subprocess.run(
        command, env=slurm.env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert set(site_factors(slurm).values()) == {0}
    assert table.read_text() == ""
    assert factor_at_once(slurm) == 0
