"""`--from slurm` on the fake cluster: what it reads, says and writes, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.ended_jobs import ended_job, ended_load
from tests.fakes.fake_cluster import FakeCluster
from tests.functional.typed import Typed, rows_of
from tests.unit.machine_files.written_files import PARTITION, machine_of_lines

SINCE = (datetime.now() - timedelta(days=40)).date().isoformat()
SMALL = ["--steps", "1", "--hidden", "2", "--runs", "1"]


def now() -> int:
    return int(time.time())  # noqa: TID251 - the clock that the command goes by


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Eight of twelve processors are up; 60 jobs ran, one came late and one never ran."""
    fake = FakeCluster(tmp_path)
    begin = now() - 2 * 86400
    never = {"Start": "None", "ElapsedRaw": 0, "State": "CANCELLED by 1000"}
    jobs = ended_load(60, begin)
    jobs.append(ended_job(61, begin + 40, Eligible=begin + 4040, Start=begin + 4050))
    jobs.append(ended_job(62, begin + 50, **never))
    fake.set(accounting=jobs)
    fake.enter(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return fake


def evaluated(typed: Typed, *words: str) -> dict[str, Any]:
    command = ["evaluate", "--from", "slurm", "--since", SINCE, "--json", *words]
    document: dict[str, Any] = typed.json(*command)
    return document


def test_evaluate_takes_size_and_shares_from_the_cluster(typed: Typed) -> None:
    document = evaluated(typed, "--policy", "native", "--policy", "fifo")
    log = document["log"]
    assert (log["name"], log["records"], log["ran"]) == ("slurm", 62, 61)
    assert log["dropped"] == {"never ran": 1}
    assert (log["processors"], log["processors_from"]) == (12, "sinfo")
    assert log["shares"] == pytest.approx({"biology": 0.3, "physics": 0.7})
    assert log["shares_from"] == "sshare"
    assert (log["since"], log["eligible_later"]) == (f"{SINCE}T00:00:00", 1)
    assert len(log["commands"]) in (2, 3)
    native = document["policies"]["native"]
    assert native["mean_wait"] == pytest.approx(10)
    assert native["mean_wait_since_submit"] == pytest.approx(10 + 4000 / 61)


def test_what_is_given_goes_before_what_slurm_says(typed: Typed, cluster: FakeCluster) -> None:
    cluster.break_command("sinfo", "down")
    cluster.break_command("sshare", "down")
    log = evaluated(typed, "--processors", "5", "--shares", "physics=.5,biology=.5")["log"]
    assert (log["processors"], log["processors_from"]) == (5, "options")
    assert (log["shares"], log["shares_from"]) == ({"physics": 0.5, "biology": 0.5}, "options")


def test_shares_of_a_described_cluster_go_before_sshares(typed: Typed, tmp_path: Path) -> None:
    accounts = "add account physics Fairshare=30\nadd account biology Fairshare=10\n"
    machine_of_lines(
        tmp_path,
        "PriorityWeightFairshare=1000",
        "NodeName=n1 CPUs=3 RealMemory=16000",
        PARTITION,
        sacctmgr_script=accounts,
    )
    log = evaluated(typed, "--cluster", ".", "--policy", "multifactor")["log"]
    assert log["shares"] == pytest.approx({"biology": 0.25, "physics": 0.75})
    assert log["shares_from"] == "cluster"
    words = ["what-if", "--from", "slurm", "--since", SINCE, "--cluster", ".", "--json"]
    document = typed.json(*words, "--change", "account biology Fairshare=3000")
    assert document["log"]["shares_from"] == "cluster"
    (variant,) = document["variants"].values()
    waits = {
        name: each["figures"]["mean_wait"] for name, each in variant["groups"]["account"].items()
    }
    assert waits["biology"]["after"] < 0.5 * waits["biology"]["before"]
    assert waits["physics"]["after"] > waits["physics"]["before"]


def test_accounts_that_sshare_does_not_know_share_by_work(
    typed: Typed, cluster: FakeCluster
) -> None:
    cluster.set(shares=[["root", "", "", "1000"], [" chemistry", "", "1", "0"]])
    log = evaluated(typed)["log"]
    assert log["shares_from"] == "work"
    assert log["shares"].keys() == {"physics", "biology"}


def test_usage_counts_what_the_cluster_bills(typed: Typed, cluster: FakeCluster) -> None:
    line = "PartitionName=batch State=UP TRESBillingWeights=CPU=0.5,Mem=2G"
    assert "billing_from" not in evaluated(typed)["log"]
    cluster.set(shares=[["root", "", "", "1000"]], partition_lines=[line])
    document = evaluated(typed, "--policy", "native")
    assert (document["log"]["shares_from"], document["log"]["billing_from"]) == ("work", "scontrol")
    runs = [(number % 3, 20 + 40 * (number % 8)) for number in range(60)]
    billed = [(kind, seconds * (0.5 * (1 + kind) + 2)) for kind, seconds in runs]
    biology = sum(units for kind, units in billed if kind == 0)
    physics = sum(units for kind, units in billed if kind > 0) + 50 * 2.5  # and the late job
    share = biology / (biology + physics)
    assert document["log"]["shares"]["biology"] == pytest.approx(share)
    accounts = document["policies"]["native"]["accounts"]
    assert accounts["biology"]["work_fraction"] == pytest.approx(share)
    assert "as the site bills it (by its billing weights and factors)" in typed.out(
        "evaluate", *FROM, "--policy", "fifo"
    )


def test_the_dump_is_kept_only_where_asked_and_is_a_log(typed: Typed, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    evaluated(typed)
    assert set(tmp_path.iterdir()) == before
    direct = evaluated(typed, "--keep", "kept.log")
    kept = tmp_path / "kept.log"
    content = kept.read_bytes()
    mark = content.split(b"\n")[1].partition(b":")[0] + b":"
    unmarked = content.replace(mark, b"")  # another dump of the same jobs has another mark
    assert direct["log"]["sha256"] == hashlib.sha256(unmarked).hexdigest()
    words = ["--processors", "12", "--shares", "biology=.3,physics=.7", "--json"]
    assert typed.json("evaluate", "kept.log", *words)["policies"] == direct["policies"]


def test_train_says_what_it_took_and_its_command_makes_the_same_model(
    typed: Typed, tmp_path: Path
) -> None:
    words = ["train", "--from", "slurm", "--since", SINCE, *SMALL, "-o", "site.onnx"]
    said = typed.out(*words)
    assert "62 jobs ended" in said
    assert "processors: 12 (the whole cluster, from sinfo" in said
    assert "shares: biology=0.3, physics=0.7 (Slurm's own, from sshare" in said
    manifest = json.loads((tmp_path / "site.json").read_text())
    (source,) = manifest["sources"]
    assert (source["log"], source["source"], source["jobs"]) == ("slurm", "slurm", 61)
    assert len(source["sha256"]) == 64
    assert all("sacct" in line for line in source["commands"])
    assert f"--from slurm --since {SINCE}T00:00:00 --until 20" in manifest["command"]
    model = (tmp_path / "site.onnx").read_bytes()
    typed.out(*manifest["command"].split()[1:])
    assert (tmp_path / "site.onnx").read_bytes() == model


def test_a_training_on_slurms_jobs_may_start_from_a_model(typed: Typed, tmp_path: Path) -> None:
    words = ["train", "--from", "slurm", "--since", SINCE, *SMALL, "-o"]
    typed.out(*words, "first.onnx")
    typed.out(*words, "next.onnx", "--from", "first.onnx")
    manifest = json.loads((tmp_path / "next.json").read_text())
    assert "--from slurm --since" in manifest["command"]
    assert "--from first.onnx" in manifest["command"]


FROM = ["--from", "slurm", "--since", SINCE]


@rows_of("--from slurm")
@pytest.mark.parametrize("verb", ["evaluate", "train"])
def test_wrong_usage_is_one_sentence(typed: Typed, verb: str, words: str, said: str) -> None:
    given = words.replace("FROM", shlex.join(FROM)).replace("SINCE", SINCE)
    check_fault(typed, verb, shlex.split(given), said)


@pytest.mark.parametrize(
    ("command", "mode", "fault", "expected"),
    [
        ("sacct", "fail:Slurm accounting storage is disabled", "keeps no accounting", 2),
        ("sacct", "fail:Problem talking to the database", "cannot reach slurmdbd", 1),
        ("sacct", "fail:Invalid field", "sacct failed: Invalid field; run it by hand", 1),
        ("sacct", "garbage", "sacct: this is no dump", 2),
        ("sinfo", "down", "sinfo cannot reach Slurm", 1),
        ("sshare", "garbage", "sshare answered a line", 1),
        ("scontrol", "down", "scontrol cannot reach Slurm", 1),
    ],
)
def test_what_slurm_refuses_is_one_sentence(
    typed: Typed,
    cluster: FakeCluster,
    command: str,
    mode: str,
    fault: str,
    expected: int,
) -> None:
    cluster.break_command(command, mode)
    check_fault(typed, "train", FROM, fault, expected)


def test_too_few_jobs_are_one_sentence(typed: Typed, cluster: FakeCluster) -> None:
    cluster.set(accounting=[ended_job(1, now() - 3600)])
    status, _, err = typed("train", *FROM, "-o", "site.onnx")
    assert status == 2
    assert "the log has too few jobs to train and validate on (1)" in err
    never = ended_job(2, now() - 60, Start="None", ElapsedRaw=0, State="CANCELLED by 0")
    cluster.set(accounting=[never])
    check_fault(typed, "train", FROM, "1 jobs ended")


def test_without_sacct_it_says_where_to_get_it(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    check_fault(typed, "train", FROM, "needs sacct, which is not on the PATH")


def check_fault(typed: Typed, verb: str, words: list[str], fault: str, expected: int = 2) -> None:
    more = ["-o", "site.onnx"] if verb == "train" else []
    code, out, err = typed(verb, *words, *more)
    assert (code, out, err.count("\n")) == (expected, "", 1)
    assert fault in err
    assert not Path("site.onnx").exists()
