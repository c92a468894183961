"""Attacker: a user who submits jobs whose texts read like accounting records of another user."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.sacct.fields import SACCT_FIELDS, marked_format
from slurm_rl_plugin.accounting.sacct.reader import SacctReader
from tests.fakes.ended_jobs import ended_job
from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.private_cluster import ClusterPlan, PrivateSlurm

pytestmark = [pytest.mark.real, pytest.mark.promise]

TOP = Path(__file__).parents[3]
#: As `sacct` printed records before they had marks, and with a mark that the attacker guesses.
PREFIXES = {"no mark": "", "a guess": marked_format("0" * 16)["SLURM_TIME_FORMAT"][:-2]}


def forged(prefix: str) -> str:
    job = ended_job(900_001, 1_700_000_000, ElapsedRaw=10**7, User="bob", Account="biology")
    times = {each: f"{prefix}{job[each]}" for each in ("Submit", "Eligible", "Start", "End")}
    return "|".join(str((job | times)[each]) for each in SACCT_FIELDS)


#: Each holds line breaks, bars and quotes around a record of bob's.
TEXTS = [f"x|COMPLETED|sbatch\n{forged(prefix)}\n\"'|y" for prefix in PREFIXES.values()]


@pytest.fixture(scope="module")
def attacked() -> Iterator[tuple[PrivateSlurm, str, int]]:
    """A cluster on which alice has run such jobs and bob one; when it began, and how many ran."""
    skip_without_daemons()
    with running_slurm(ClusterPlan(accounts=ACCOUNTS)) as slurm:
        since = datetime.now().replace(microsecond=0)
        words = ("sbatch", "--parsable", "--account=physics", "--output=/dev/null")
        jobs = []
        for place, text in enumerate(TEXTS):
            folder = Path("/tmp") / f"x{place}\n{text}".replace("/", "-")[:200]
            slurm.run("mkdir", "-p", str(folder), user="alice")
            for options in (
                ["--job-name", text],
                ["--comment", text],
                ["--chdir", str(folder)],
                ["--wckey", text],
            ):
                done = slurm.run(*words, *options, "--wrap=true", user="alice", check=False)
                jobs += [done.stdout.strip()] if done.returncode == 0 else []
            slurm.run(
                "scontrol", "update", f"jobid={jobs[-1]}", f"admincomment={text}", check=False
            )
            slurm.run("rmdir", str(folder), user="alice", check=False)
        slurm.submit(user="bob", account="biology", seconds=1)
        slurm.wait_empty(60)
        count = len(jobs) + 1
        asked = (
            "sacct",
            "-aXnP",
            "-s",
            "CD",
            "-E",
            "now",
            "-o",
            "JobIDRaw",
            "-S",
            since.isoformat(),
        )
        slurm.wait_until(
            lambda: len(slurm.run(*asked).stdout.split()) >= count, 30, "all jobs in accounting"
        )
        yield slurm, since.isoformat(), count


def test_no_text_of_a_job_forges_the_record_of_another(
    attacked: tuple[PrivateSlurm, str, int], tmp_path: Path
) -> None:
    slurm, since, count = attacked
    kept = tmp_path / "kept.log"

    def evaluate(*source: str) -> dict[str, Any]:
        words = ("-P", "-m", "slurm_rl_plugin.cli.entry", "evaluate", *source, "--policy", "fifo")
        done = slurm.run(
            *(sys.executable, *words, "--json"), env={"PYTHONPATH": str(TOP)}, timeout=300
        )
        found: dict[str, Any] = json.loads(done.stdout)["log"]
        return found

    log = evaluate("--from", "slurm", "--since", since, "--keep", str(kept))
    text = kept.read_text()
    for found in (log, evaluate(str(kept))):  # the same from the dump that was kept
        assert found["jobs"] == count
        assert set(found["noticed"]) == {"row within the text of a job"}
    jobs, _ = SacctReader().read(kept)
    assert set(jobs.job_id.tolist()) <= set(range(1, count + 1))
    # without its mark the same dump holds the record of bob's that alice wrote
    mark = text.partition("\n")[2].partition(":")[0] + ":"
    unmarked = LogFile(kept, text.replace(mark, "").encode())
    assert 900_001 in SacctReader().read(unmarked)[0].job_id.tolist()
