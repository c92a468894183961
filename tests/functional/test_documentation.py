"""Every command of the documents is run, on small input in a folder of its own.

`make` itself is only asked what it would do, because `make test` would run this file again; the
commands of slurm-rl in it are run. Other shell lines (pip, useradd, sacctmgr, sacct) are not run,
except the line that rolls back all factors without our program, on a real Slurm.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

import pytest

from slurm_rl_plugin.accounting.conversion import convert
from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.cli import reproduce
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.learning import training
from slurm_rl_plugin.learning.evaluation.heldout import HeldoutProtocol
from slurm_rl_plugin.learning.heldout_training import compare_with_rules, heldout_loads
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.papers.registry import STUDIES
from slurm_rl_plugin.services.offer_service import build_offer_pages
from slurm_rl_plugin.serving.page_server import serve_pages, serve_pages_locally
from slurm_rl_plugin.simulator.workloads.generators import generated_log, is_generator_name
from tests.architecture.markdown_documents import (
    TOP,
    Command,
    all_commands,
    code_blocks,
    commands_in,
    rollback_line,
    section,
    table_rows,
)
from tests.fakes.ended_jobs import ended_load
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.pbs_month import write_month
from tests.functional.small_site import small_network, write_small_site
from tests.real.conftest import closed_slurm, release, shared_slurm, slurm  # noqa: F401 - fixtures
from tests.real.daemon_under_test import running_hook
from tests.real.private_cluster import PrivateSlurm

README = TOP / "README.md"
TRACES = os.environ.get("SLURM_RL_TRACES")
COMMANDS = [each for each in all_commands() if each.program == "slurm-rl"]
TARGETS = sorted({word for each in all_commands() if each.program == "make" for word in each.words})
#: Options whose documented values would take minutes, and what the test gives instead.
SMALLER = {"--generations": "2", "--steps": "2", "--jobs": "300", "--drop": "5,5", "--seeds": "2"}
#: Days before now of what the fake accounting is asked for: documented dates may lie in the future.
DAYS_AGO = {"--since": 3, "--until": 1}
#: Options that shorten long commands.
SMALLER_BY_VERB = {
    "demo": ["--generations", "2"],
    "train": ["--steps", "2"],
}
QUICK_PAPERS = tuple(name for name, study in STUDIES.items() if study.keeps)
#: Windows of held-out training that fit into a short log.
SHORT = HeldoutProtocol(windows=4, warm_up=100, counted=200, further=50)
NEEDS_SLURM = (
    *("run", "release", "queue", "explain", "status", "audit", "check", "pbs-setup"),
    *("disable", "enable", "pause", "shadow-report", "offer", "forecast", "experiment"),
)
#: Studies that need no traces.
DRAW_THEIR_LOGS = ("learning-agents", "switchback")
#: On a site with factors and without a daemon: a health check, and verbs that wait for the daemon.
FAILING = ("status", "disable", "pause")
#: Factors of the fake jobs before anything runs.
FACTORS = {7, 14, 21, 28, 35}


def made_smaller(words: Sequence[str]) -> list[str]:
    """The same command with less work."""
    small = list(words)
    for place, word in enumerate(small):
        if place and words[place - 1] in SMALLER:
            small[place] = SMALLER[words[place - 1]]
        elif place and words[place - 1] in DAYS_AGO:
            day = datetime.now() - timedelta(days=DAYS_AGO[words[place - 1]])
            small[place] = day.date().isoformat()
        elif is_generator_name(word) and "jobs=" not in word:
            small[place] = word.rstrip(",") + ",jobs=300"
        elif ".swf.gz" in word:
            small[place] = "site.swf.gz"
        elif word.startswith("site.parquet@"):  # its jobs came within a week
            small[place] = "site.parquet@jobs=0:200"
    if "--protocol" in small:  # no window of the protocol fits into the log of the workplace
        wide = "mmn:jobs=2500" if small[0] == "train" else "mmn:jobs=6340"
        small = [wide if word == "site.swf.gz" else word for word in small]
    else:
        small += ["--runs", "1"] * (small[0] == "train")
    small += SMALLER_BY_VERB.get(small[0], [])
    if small[0] == "reproduce" and small[1] in QUICK_PAPERS:
        small += ["--quick"]
    if small[0] in NEEDS_SLURM and "--config" not in small:
        small += ["--config", "site.toml"]  # instead of the one in /etc
    return small


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with every file that the documents name, and a fake Slurm on the PATH."""
    log = tmp_path / "site.swf"
    write_swf(log, generated_log("mmn:jobs=300,processors=5"), comments=["MaxProcs: 5"])
    (tmp_path / "site.swf.gz").write_bytes(gzip.compress(log.read_bytes()))
    bundled = resources.files("slurm_rl_plugin.cli.demo") / "logs" / "cluster-sacct.log"
    (tmp_path / "sacct.log").write_text(bundled.read_text())
    convert([log], tmp_path / "site.parquet")
    write_month(tmp_path / "accounting", 1000)
    write_small_site(tmp_path)
    export_network(small_network(), tmp_path / "model.onnx", {"estimates": "requested"})
    (tmp_path / "policy_models").mkdir()
    for settings in (TOP / "policy_models").glob("*.toml"):
        shutil.copy(settings, tmp_path / "policy_models")
    shutil.copy(tmp_path / "model.onnx", tmp_path / "policy_models" / "default.onnx")
    (tmp_path / "site.toml").write_text(
        f'[hook]\nmode = "active"\ndisable_file = "{tmp_path}/DISABLE"\n'
        f'state_file = "{tmp_path}/state.json"\naudit_file = "{tmp_path}/audit.jsonl"\n'
        f'[policy]\nmodel = "{tmp_path}/model.onnx"\n'
        "[metrics]\nport = 0\n"
        "[shares]\nphysics = 0.7\nbiology = 0.3\n"
        f'[offer]\nport = 0\ntoken_file = "{tmp_path}/offer-token"\n'
        f'[forecast]\nport = 0\nqueue_file = "{tmp_path}/queue.npz"\nlog = "{tmp_path}/sacct.log"\n'
        f'kept_file = "{tmp_path}/kept.sqlite"\nsocket = "{tmp_path}/socket"\n'
    )
    (tmp_path / "offer-token").write_text("t" * 64)
    for block in code_blocks(TOP / "docs" / "order.md"):
        if block.kind == "toml" and block.text[0] == "#":  # its first line names the file
            (tmp_path / block.text.split()[1]).write_text(block.text)
    (tmp_path / "audit.jsonl").write_text('{"event": "write", "time": 1795300000.5, "job": 3}\n')
    fake = FakeCluster(tmp_path)
    now = int(time.time())  # noqa: TID251 - the daemon's clock
    for job in range(1, 6):
        fake.add(job, submit=now - 100 + job, eligible=now - 100 + job, site=7 * job)
    fake.set(accounting=ended_load(300, now - 2 * 86400))
    fake.enter(monkeypatch)
    short = {"training": SHORT, "validation": SHORT}
    monkeypatch.setattr(training, "heldout_loads", partial(heldout_loads, **short))
    compare = partial(compare_with_rules, validation=SHORT)
    monkeypatch.setattr(training, "compare_with_rules", compare)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def factors(workplace: Path) -> set[int]:
    text = (workplace / "slurm.json").read_text()
    return {job["site"] for job in json.loads(text)["jobs"]}


def daemon(words: Sequence[str], *, until: str) -> str:
    """Run the daemon until its log holds a text, stop it as systemd does; its log.

    With ``--once`` it ends by itself: a signal would meet an interpreter that ends.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "slurm_rl_plugin.cli.entry", *words],
        env={**os.environ, "PYTHONPATH": str(TOP)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    log = ""
    for line in process.stderr:
        log += line
        if until in line:
            break
    if "--once" not in words:
        process.send_signal(signal.SIGTERM)
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 0, log + rest
    return log + rest


class WorkBegins(BaseException):
    """A study has taken its options and read its logs."""


def work_begins(title: str, parts: int) -> NoReturn:
    raise WorkBegins(title, parts)


def is_study(command: Command) -> bool:
    """Whether it trains, searches or simulates windows: half a minute to two, even made small."""
    whole = command.words[0] == "reproduce" and not shows_its_work(command)
    whole |= command.words[0] == "what-if" and reads_traces(command)
    whole |= command.words[0] in {"train", "demo"}
    return "--protocol" in command.words or whole


def reads_traces(command: Command) -> bool:
    """Whether it names a log of the folder of traces."""
    return any(word.startswith("traces/") for word in command.words)


def shows_its_work(command: Command) -> bool:
    """Whether a study shows when its work begins: all but the schedules of rlscheduler."""
    return command.words[1] != "rlscheduler"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(each, marks=[pytest.mark.study] * is_study(each), id=str(each))
        for each in COMMANDS
    ],
)
def test_commands_of_the_documents_run(
    command: Command, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = made_smaller(command.words)
    replays = command.words[0] == "reproduce" and command.words[1] not in DRAW_THEIR_LOGS
    if replays or reads_traces(command):
        if not TRACES:
            pytest.skip("SLURM_RL_TRACES names no directory of workload traces")
        (workplace / "traces").symlink_to(TRACES)
    if command.words[0] == "reproduce" and shows_its_work(command):
        monkeypatch.setattr(reproduce, "parts_bar", work_begins)
        with pytest.raises(WorkBegins):  # each study is run whole by a test of its own
            main(words)
        return
    if command.words[0] == "run":
        log = daemon(words, until="cycle=done")
        assert "failure=none fallback=no" in log
        if "--shadow" in words:
            assert factors(workplace) == FACTORS
        assert factors(workplace) <= {0} | FACTORS  # what it wrote was taken back
        return
    if command.words[0] == "offer":
        assert "url=http://127.0.0.1:" in daemon(words, until="offer=ready")
        return
    if command.words[0] == "forecast":
        daemon(["run", "--once", "--config", "site.toml"], until="cycle=done")  # leaves its look
        log = daemon(words, until="forecast=done")
        assert "scored=" in log
        return
    if command.words[0] == "experiment":
        daemon(["run", "--once", "--config", "site.toml"], until="cycle=done")  # leaves its look
        words += ["--insist"] * (command.words[1] == "start")  # its log has no recent weeks
        if command.words[1] != "start":
            assert main(["experiment", "start", "--insist", "--config", "site.toml"]) == 0
        if "--committee" in words:  # a page of one that is: test_experiment_verbs
            assert main(words) == 2
            return
    if command.words[0] == "shadow-report":  # of an audit log that holds a cycle
        daemon(["run", "--once", "--config", "site.toml"], until="cycle=done")
    if command.words[0] == "start":
        words = told_by_a_service(words, workplace)
    if command.words[0] == "route":
        serve_own_site(workplace, monkeypatch)
    assert main(words) == int(command.words[0] in FAILING)
    if command.words[0] == "release":
        assert factors(workplace) == {0}


def told_by_a_service(words: list[str], workplace: Path) -> list[str]:
    """The words, with a service that says of each job the same; the real one has its own tests."""
    told = {"start": 2.0e9, "bands": {"50 %": [1.9e9, 2.1e9], "90 %": [1.8e9, 2.2e9]}}
    job = {"job": 4242, "partition": "batch", "ahead": 1, "ahead_of_account": 0, "why_not": None}
    chances = {"10 minutes": 0.0, "1 hour": 0.2, "1 day": 1.0}
    document = {"foretold": 1.7e9, "jobs": [job | {"forecast": told | {"chances": chances}}]}
    body = json.dumps(document).encode()

    def pages(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        del environ
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]

    serve_pages_locally(pages, workplace / "socket", section="forecast")
    if "--url" in words:
        port = serve_pages(pages, "127.0.0.1", 0, section="forecast")
        words[words.index("--url") + 1] = f"http://127.0.0.1:{port}"
        (workplace / "portal-token").write_text("t" * 64)
    return [words[0], "--config", "site.toml", *words[1:]]


def serve_own_site(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offers of the workplace's own cluster, and a list with this one site."""
    pages = build_offer_pages(read_configuration(workplace / "site.toml"))
    port = serve_pages(pages, "127.0.0.1", 0, section="offer")
    (workplace / "slurm-rl").mkdir()
    (workplace / "slurm-rl" / "sites.toml").write_text(
        f'[[site]]\nname = "trial"\nurl = "http://127.0.0.1:{port}"\n'
        f'token_file = "{workplace}/offer-token"\n'
    )
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(workplace))


def dry_run(target: str) -> str:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    words = [make, "--dry-run", "--always-make", target]
    done = subprocess.run(words, cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.replace("\\\n", " ")


@pytest.mark.parametrize("target", TARGETS)
def test_make_targets_exist_and_install_what_they_use(target: str) -> None:
    # the package brings its own environment
    assert ("deploy/debian/build.sh" if target == "deb" else "pip install") in dry_run(target)


def made_commands() -> Iterator[Command]:
    for target in TARGETS:
        for line in dry_run(target).splitlines():
            yield from (each for each in commands_in(line, target) if each.program == "slurm-rl")


@pytest.mark.study
def test_what_make_runs_works_on_small_input(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs = []
    for command in made_commands():
        verbs.append(command.words[0])
        capsys.readouterr()
        assert main(made_smaller(command.words)) == 0, command
        if command.words[0] == "demo":
            check_demo(capsys.readouterr().out, workplace / "demo-output")
    assert {"demo", "train"} <= set(verbs)


def check_demo(printed: str, folder: Path) -> None:
    """The demo prints the table of the README; rows that no training touches are the same."""
    (shown,) = [block.text for block in code_blocks(README) if block.text.startswith("POLICY")]
    lines = printed.splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("POLICY"))
    table = lines[first : first + len(shown.splitlines())]
    for line, expected in zip(table, shown.splitlines(), strict=True):
        if not expected.startswith(("model", "hook active")):
            assert line.split() == expected.split()
        assert re.split(r"\s{2,}", line)[0] == re.split(r"\s{2,}", expected)[0]
    for name in re.findall(r"^  (\S+\.\w+) ", printed, re.MULTILINE):
        assert (folder / name).stat().st_size > 0


@pytest.mark.skipif(not TRACES, reason="SLURM_RL_TRACES names no directory of workload traces")
def test_measured_figures_on_sequential_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    table = section(TOP / "docs" / "research" / "heldout.md", "A log of sequential jobs")
    rows = [cells for cells in table_rows(table) if len(cells) == 8]
    assert len(rows) == 5
    policies = [cells[0] for cells in rows[:-1]] + [str(TOP / "policy_models" / rows[-1][0])]
    words = [str(Path(str(TRACES)) / "LPC-D_190257-199831.swf.gz"), "--processors", "81"]
    words += ["--estimates", "class-median", "--json"]
    assert main(["evaluate", *words, *(f"--policy={each}" for each in policies)]) == 0
    document = json.loads(capsys.readouterr().out)
    for cells, policy in zip(rows, policies, strict=True):
        entry = document["policies"][policy]
        quick = entry["classes"]["interactive"]
        measured = [entry["mean_wait"], entry["max_wait"], quick["mean_wait"]]
        measured += [quick["within_120s"], entry["responsiveness"]]
        measured += [entry["time_utility"], entry["fairness"]]
        assert [float(cell) for cell in cells[1:]] == pytest.approx(measured, rel=2e-3, abs=6e-4)


#: The last 40 % of the jobs that ran, in each log of the README's table, column by column.
SHIPPED_ON = ("SDSC-SP2-1998-4.2-cln", "CTC-SP2-1996-3.1-cln", "HPC2N-2002-2.2-cln")
#: Row of the README's table -> what its figures are over, and which they are.
SHIPPED_ROWS = {
    "mean bounded slowdown": ("multifactor", "bounded_slowdown"),
    "mean wait": ("multifactor", "mean_wait"),
    "mean wait of the widest tenth of the jobs": ("multifactor", "wide_wait"),
    "longest wait": ("multifactor", "longest_wait"),
    "longest wait over first come, first served": ("fifo", "longest_wait"),
}


@pytest.mark.study
@pytest.mark.skipif(not TRACES, reason="SLURM_RL_TRACES names no directory of workload traces")
@pytest.mark.parametrize("column", [0, 1, 2], ids=["SDSC-SP2", "CTC-SP2", "HPC2N"])
def test_the_readme_leads_with_what_ships(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, column: int
) -> None:
    """The default model under the default settings, and with its order alone."""
    log = str(Path(str(TRACES)) / f"{SHIPPED_ON[column]}.swf.gz")
    words = ["--protocol", "continuous", "--policy", "default", "--policy", "multifactor"]
    told = {cells[0]: cells[1:] for cells in table_rows(README.read_text()) if len(cells) == 7}
    for place, (influence, runs) in enumerate((("72", "4"), (None, "4"))):
        more = ["--runs", runs, "--json"]
        if influence is not None:
            settings = tmp_path / "site.toml"
            settings.write_text(f"[hook]\ninfluence_hours = {influence}\n")
            more += ["--config", str(settings)]
        assert main(["evaluate", log, *words, *more]) == 0
        found = json.loads(capsys.readouterr().out)["continuous"]
        for row, (base, figure) in SHIPPED_ROWS.items():
            shown = float(told[row][2 * column + place])
            measured = found[f"ratio_to_{base}"]["default"][figure]
            assert shown == pytest.approx(measured, rel=0.02, abs=0.01), (row, influence)


def site_factors(cluster: PrivateSlurm) -> list[int]:
    """SITE column of sprio, a row for each pending job that it lists."""
    lines = cluster.run("sprio", "-h", "-o", "%i %S").stdout.splitlines()
    return [int(float(line.split()[1])) for line in lines]


def nice_values(cluster: PrivateSlurm) -> list[str]:
    return sorted(cluster.run("squeue", "-h", "-o", "%i %y").stdout.splitlines())


@pytest.mark.real
@pytest.mark.promise
def test_the_rollback_line_takes_every_factor_back(
    closed_slurm: PrivateSlurm,  # noqa: F811 - the fixture
) -> None:
    cluster = closed_slurm
    plain, held = cluster.submit(), cluster.submit("--hold")
    array = cluster.submit("--array=1-8")
    others = [
        cluster.submit("--nice=7"),
        cluster.submit(f"--dependency=afterok:{plain}"),
        cluster.submit("--partition=batch,short"),
    ]
    jobs = [plain, held, array, *others]
    lines = [f"update jobid={job} sitefactor=555\n" for job in jobs]
    lines.append(f"update jobid={array}_3 sitefactor=777\n")  # splits the array
    cluster.run("scontrol", stdin="".join(lines))
    cluster.wait_until(lambda: len(site_factors(cluster)) >= 6, 10, "all jobs eligible")
    assert set(site_factors(cluster)) == {555, 777}
    nice = nice_values(cluster)

    done = cluster.run("sh", "-c", rollback_line(README))

    assert done.stderr == ""
    cluster.run("scontrol", "release", str(held))
    cluster.wait_until(lambda: len(site_factors(cluster)) >= 7, 10, "the held job eligible")
    assert set(site_factors(cluster)) == {0}
    assert nice_values(cluster) == nice


@pytest.mark.real
@pytest.mark.promise
def test_factors_of_a_killed_daemon_stay_until_they_are_released(
    closed_slurm: PrivateSlurm,  # noqa: F811 - the fixture
    tmp_path: Path,
) -> None:
    cluster = closed_slurm
    for minutes in (9, 5, 1):
        cluster.submit(minutes=minutes)
    cluster.wait_until(lambda: len(site_factors(cluster)) == 3, 10, "all jobs eligible")
    with running_hook(cluster, tmp_path, "sjf", cycle=0.5) as hook:
        cluster.wait_until(lambda: any(site_factors(cluster)), 20, "factors")
        hook.process.kill()
        hook.process.wait(timeout=10)
    assert any(site_factors(cluster))
    configuration = str(tmp_path / "slurm-rl.toml")
    cluster.run(
        *(sys.executable, "-m", "slurm_rl_plugin.cli.entry"),
        *("release", "--config", configuration),
        env={"PYTHONPATH": str(TOP)},
    )
    assert site_factors(cluster) == [0, 0, 0]
