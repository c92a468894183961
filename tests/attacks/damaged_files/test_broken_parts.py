"""What is missing, broken or made to be so: libraries, state files, configurations, models.

Whatever it is, switching off (`release`, `disable`, `enable`, `pause`, `status`, a stop) restores
every factor or says in one sentence why not, with exit code 1: never a traceback, never 0 with
outstanding factors.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.markdown_documents import TOP
from tests.fakes.running_daemon import ENTRY, free_port, running_daemon, until
from tests.functional.fake_site import FakeSite

LIBRARIES = ("onnxruntime", "prometheus_client", "numba", "onnx", "matplotlib", "rich")
FAULTS = {
    "missing": "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)",
    "unloadable": "raise ImportError('libgomp.so.1: cannot open it', name=__name__)",
    "broken": "raise OSError('libonnxruntime.so: invalid ELF header')",
}
CAPTURED: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 90}
BY_HAND = "sitefactor=0/' | scontrol"


class Site(FakeSite):
    """Three jobs, two with a factor of the daemon, and no daemon."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        super().__init__(folder, monkeypatch, capsys)
        self.file, self.state = folder / "site.toml", folder / "var" / "state.json"
        self.after = ("--config", str(self.file))
        self.set_variable = monkeypatch.setenv
        self.set_variable("PYTHONPATH", str(TOP))
        hook = {**self.sections.pop("hook"), "state_file": str(self.state), "audit_file": ""}
        self.sections = {"hook": {"cycle": 1, **hook}, **self.sections}
        self.append("")
        for job, minutes in ((1, 50), (2, 30), (3, 10)):
            self.wait(job, site={1: 500, 2: 700}.get(job, 0), time_limit=f"{minutes}:00")
        self.state.parent.mkdir()
        self.state.write_text(json.dumps({"version": 1, "jobs": [1, 2]}))

    def break_libraries(self, names: tuple[str, ...], fault: str) -> None:
        """In a folder before all others on the path."""
        for name in names:
            package = self.folder / "broken" / name
            package.mkdir(parents=True)
            (package / "__init__.py").write_text(FAULTS[fault] + "\n")
        self.set_variable("PYTHONPATH", f"{self.folder / 'broken'}:{TOP}")

    def says(self, *words: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a verb; never a traceback."""
        if words[0] != "run" and os.environ["PYTHONPATH"] == str(TOP):
            return self(*words)  # here the libraries are loaded already: half a second less
        done = subprocess.run([*ENTRY, *words, *self.after], check=False, **CAPTURED)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    @property
    def carried(self) -> list[int]:
        """Factors of the three jobs."""
        return self.factors(1, 2, 3)

    @contextmanager
    def daemon(self) -> Iterator[subprocess.Popen[bytes]]:
        """A real one, once it has ordered the queue."""
        for job in (1, 2):
            self.cluster.change(job, site=0)
        self.state.unlink()
        with running_daemon(self.folder, self.folder / "daemon.log") as process:
            until(lambda: any(self.carried), "factors")
            yield process


@pytest.fixture
def site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Site:
    return Site(tmp_path, monkeypatch, capsys)


UNATTENDED = pytest.mark.parametrize("how", [(), ("--unattended",)], ids=["by hand", "unattended"])


@pytest.mark.parametrize("fault", FAULTS)
@UNATTENDED
def test_release_needs_no_library_of_the_way_in(site: Site, fault: str, how: list[str]) -> None:
    site.break_libraries(LIBRARIES, fault)
    code, out, _ = site.says("release", *how)
    assert (code, out) == (0, "released 2 jobs\n")
    assert site.carried == [0, 0, 0]


@pytest.mark.parametrize("library", ["onnxruntime", "prometheus_client"])
def test_the_other_verbs_of_the_way_out_need_none_either(site: Site, library: str) -> None:
    site.break_libraries((library,), "missing")
    code, out, _ = site.says("disable", "--wait", "1")
    assert (code, "2 pending jobs carry a factor" in out) == (1, True)
    assert (site.folder / "DISABLE").exists()
    assert site.says("release")[0] == 0
    assert site.says("disable", "--wait", "1")[0] == 0
    assert site.says("enable")[0] == 0
    assert site.says("pause", "--for", "2h", "--wait", "1")[0] == 0
    code, out, _ = site.says("status")
    assert (code, "slurm: reachable" in out) == (0, True)


@pytest.mark.parametrize("fault", FAULTS)
def test_status_tells_that_the_model_cannot_be_looked_at(site: Site, fault: str) -> None:
    site.break_libraries(("onnxruntime",), fault)
    code, out, _ = site.says("status", "--set", "policy.model=default")
    assert code == 1
    assert "problem: model " in out
    assert "onnxruntime cannot be loaded" in out
    assert "slurm: reachable; 3 jobs pending, 2 with a factor" in out


@pytest.mark.parametrize("verb", ["release", "disable", "status"])
def test_without_numpy_they_say_what_does_it_by_hand(site: Site, verb: str) -> None:
    site.break_libraries(("numpy",), "missing")
    code, out, err = site.says(verb)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "needs numpy: pip install -r requirements/runtime.txt in a checkout of version" in err
    assert BY_HAND in err


def test_a_daemon_without_onnxruntime_falls_back(site: Site) -> None:
    site.break_libraries(("onnxruntime",), "unloadable")
    words = ("run", "--once", "--set", "policy.model=default", "--set", "hook.mode=active")
    code, _, err = site.says(*words)
    assert (code, "model=refused" in err, "fallback=yes" in err) == (0, True, True)
    assert site.says("release")[0] == 0
    assert site.carried == [0, 0, 0]


def test_a_daemon_without_prometheus_client_refuses_before_it_writes(site: Site) -> None:
    site.break_libraries(("prometheus_client",), "missing")
    before = site.state.read_bytes()
    code, _, err = site.says("run")
    assert (code, err.count("\n")) == (1, 1)
    assert (
        "needs prometheus_client: pip install -r requirements/runtime.txt in a checkout of version"
        in err
    )
    assert (site.carried, site.state.read_bytes()) == ([500, 700, 0], before)


BROKEN = {
    "a heading": lambda text: text.replace("[hook]", "[hook"),
    "a quote": lambda text: text.replace('mode = "active"', 'mode = "active'),
    "the quote of the state file": lambda text: text.replace('state.json"', "state.json"),
    "a key given twice": lambda text: text.replace("cycle = 1", "cycle = 1\ncycle = 2"),
    "bytes": lambda text: "\udcff\udcfe\n" + text,
}


@pytest.mark.parametrize("typo", BROKEN)
@UNATTENDED
def test_a_typo_in_the_configuration_leaves_no_factor(
    site: Site, typo: str, how: list[str]
) -> None:
    broken = BROKEN[typo](site.file.read_text())
    site.file.write_bytes(broken.encode(errors="surrogateescape"))
    code, out, err = site.says("release", *how)
    assert (code, out) == (0, "released 2 jobs\n")
    assert site.carried == [0, 0, 0]
    assert f"{site.file}" in err.splitlines()[0]
    assert "going by the state file" in err


def test_the_state_file_alone_takes_back_what_a_killed_daemon_left(site: Site) -> None:
    with site.daemon() as daemon:
        daemon.kill()
        daemon.wait(timeout=10)
    site.file.unlink()
    code, _, err = site.says("release", "--unattended", "--state-file", str(site.state))
    assert (code, site.carried) == (0, [0, 0, 0]), err
    assert f"going by the state file {site.state}, as the daemon left it" in err


def test_the_environment_names_the_state_file(site: Site) -> None:
    site.file.write_text("nothing = [that, is, TOML")
    site.set_variable("SLURM_RL_HOOK_STATE_FILE", str(site.state))
    assert site.says("release", "--unattended")[0] == 0
    assert site.carried == [0, 0, 0]


@UNATTENDED
def test_where_nothing_is_known_a_sentence_says_so(site: Site, how: list[str]) -> None:
    site.state.unlink()
    site.file.write_text(f'[hook\nstate_file = "{site.state}"\n')
    code, out, err = site.says("release", *how)
    assert (code, out) == (1, "")
    assert BY_HAND in err
    assert site.carried == [500, 700, 0]


def test_disable_and_status_work_on_a_broken_configuration(site: Site) -> None:
    site.file.write_text(site.file.read_text().replace("[hook]", "[hook"))
    code, out, err = site.says("disable", "--wait", "1")
    assert (code, "2 pending jobs carry a factor" in out) == (1, True)
    assert (site.folder / "DISABLE").exists()
    assert f"{site.file}:1: is not TOML" in err
    code, out, _ = site.says("status")
    assert code == 1
    assert f"problem: {site.file}:1: is not TOML" in out
    assert "state file: 2 jobs" in out
    assert "2 with a factor" in out
    assert site.says("enable")[0] == 0
    assert not (site.folder / "DISABLE").exists()


def test_disable_makes_a_daemon_stop_whose_configuration_broke(site: Site) -> None:
    site.configure("metrics", port=free_port())
    with site.daemon():
        # only the state file says where to reach the daemon
        site.file.write_text(f'x\ndisable_file = "{site.folder / "DISABLE"}"\n')
        words = ("disable", "--wait", "30", "--state-file", str(site.state))
        code, out, _ = site.says(*words)
        assert (code, "restored its factors" in out) == (0, True), out
        assert site.carried == [0, 0, 0]


@pytest.mark.parametrize(
    "section",
    [
        '[reserve]\nmechanism = "magic"\n',
        '[reserve]\nmechanism = "qos"\n',
        "[offer]\naddress = 7\n",
        '[route]\nformula = "("\n',
        "[reward]\nfairness = 0.9\n",
        "[shares]\nphysics = 7\n",
        "[[job_class]]\nclas = 3\n",
        "[guard_rails]\nstarvation_hours = -1\n",
        "[unheard_of]\na = 1\n",
    ],
)
@UNATTENDED
def test_a_section_that_is_broken_leaves_no_factor(
    site: Site, section: str, how: list[str]
) -> None:
    site.append(section)
    code, _, err = site.says("release", *how)
    assert (code, site.carried) == (0, [0, 0, 0])
    assert f"{site.file}:" in err
    assert site.says("disable", "--wait", "1")[0] == 0


@pytest.mark.parametrize(
    "content",
    [
        *(f'{{"version": 1, "jobs": [1, {job}]}}' for job in (2**63, 2**64, 10**30, -1, 0)),
        '{"version": 2, "way_out": 7, "jobs": [1, 2]}',
        '{"version": 2, "way_out": {"batch_system": {"timeout": "x"}, "hook": 3}, "jobs": [1, 2]}',
        "[" * 5000,
        "[]",
        '{"version": 1, "jobs": [1e400]}',
        "",
    ],
    ids=lambda text: text[:40],
)
@pytest.mark.parametrize("is_read", [True, False], ids=["configured", "no configuration"])
def test_no_content_of_the_state_file_keeps_a_factor(
    site: Site, content: str, is_read: bool
) -> None:
    site.state.write_text(content)
    if not is_read:
        site.file.write_text(site.file.read_text().replace("[hook]", "[hook"))
    assert site.says("release", "--unattended")[0] == 0
    assert site.carried == [0, 0, 0]


def test_a_daemon_over_a_state_file_with_a_number_too_large_leaves_nothing(site: Site) -> None:
    with site.daemon() as daemon:
        content = json.loads(site.state.read_text())
        site.state.write_text(json.dumps({**content, "jobs": [*content["jobs"], 2**63]}))
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(timeout=60) == 0
    assert site.carried == [0, 0, 0]


def test_disable_over_a_damaged_state_file_is_no_success(site: Site) -> None:
    """Jobs that run may carry factors, and are seen nowhere else."""
    for job in (1, 2):
        site.cluster.change(job, site=0)
    site.state.write_text('{"version": 1, "jo')
    code, out, _ = site.says("disable", "--wait", "1")
    assert (code, "slurm-rl release" in out) == (1, True)


def test_a_state_file_that_cannot_be_written_is_said(site: Site) -> None:
    site.state.unlink()
    site.state.mkdir()
    code, out, err = site.says("release")
    assert (code, site.carried) == (1, [0, 0, 0])
    assert "released 2 jobs" in out
    assert "cannot be written" in err


def test_an_active_site_without_its_state_file_is_not_passed_over(site: Site) -> None:
    site.state.unlink()
    code, _, err = site.says("release", "--unattended")
    assert (code, site.carried) == (1, [500, 700, 0])
    assert "2 pending jobs carry a factor" in err
    assert site.says("release")[0] == 0
    assert site.says("release", "--unattended") == (0, "", "")


@pytest.mark.parametrize("gone", ["audit", "memory"])
def test_no_other_file_keeps_a_daemon_from_taking_its_factors_back(site: Site, gone: str) -> None:
    folder = site.folder / "other"
    folder.mkdir()
    site.configure("hook", audit_file=str(folder / "audit.jsonl") if gone == "audit" else "")
    with site.daemon() as daemon:
        shutil.rmtree(folder)
        if gone == "memory":
            site.state.with_name("state.json.memory").mkdir()
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(timeout=60) == 0
    assert site.carried == [0, 0, 0]


def test_an_audit_folder_that_is_missing_keeps_no_release_from_taking_factors_back(
    site: Site,
) -> None:
    site.configure("hook", audit_file=str(site.folder / "nowhere" / "audit"))
    assert site.says("release", "--unattended")[0] == 0
    assert site.carried == [0, 0, 0]


def test_a_port_that_is_taken_keeps_no_factor(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = site.says("run", "--set", f"metrics.port={port}")
        assert (code, "cannot listen" in err) == (2, True)
        assert site.says("release", "--unattended", "--set", f"metrics.port={port}")[0] == 0
    assert site.carried == [0, 0, 0]


@pytest.mark.parametrize("model", ["missing.onnx", "garbage.onnx"])
def test_a_model_that_is_missing_or_broken_keeps_no_factor(site: Site, model: str) -> None:
    path = site.folder / model
    if model.startswith("garbage"):
        path.write_bytes(os.urandom(5000))
    words = ("--set", f"policy.model={path}")
    assert site.says("release", "--unattended", *words)[0] == 0
    assert site.carried == [0, 0, 0]
    code, out, _ = site.says("status", *words)
    assert (code, f"problem: model {path} cannot be read" in out) == (1, True)


MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
print(done.returncode, done.stdout, done.stderr)
"""


def measured(site: Site, *words: str) -> tuple[int, str]:
    """Most megabytes of a verb, and what it said."""
    command = [sys.executable, "-c", MEASURED, *ENTRY, *words, "--config", str(site.file)]
    done = subprocess.run(command, check=True, **CAPTURED)
    megabytes, _, said = done.stdout.partition("\n")
    return int(megabytes), said


def test_a_model_of_a_gigabyte_is_refused_before_it_is_read(site: Site) -> None:
    path = site.folder / "large.onnx"
    with path.open("wb") as file:
        file.truncate(2**30)  # takes no place on the disk
    megabytes, said = measured(site, "status", "--set", f"policy.model={path}")
    assert megabytes < 400
    assert f"problem: model {path} has more than 64 MB" in said


@pytest.mark.parametrize("script", ["exec yes 123", "exec cat /dev/zero", "exec yes oops >&2"])
def test_a_squeue_that_never_stops_printing_takes_no_memory(site: Site, script: str) -> None:
    folder = site.folder / "endless"
    folder.mkdir()
    (folder / "squeue").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "squeue").chmod(0o755)
    site.set_variable("PATH", f"{folder}:{os.environ['PATH']}")
    megabytes, said = measured(site, "release", "--unattended")
    assert megabytes < 600  # of the 1 GB that its unit may have
    assert "squeue printed more than 256 MiB and was killed" in said
    assert site.carried == [0, 0, 0]


def test_a_slip_of_the_one_who_types_is_no_broken_configuration(site: Site) -> None:
    code, _, err = site.says("release", "--set", "hook.mod=active")
    assert (code, site.carried) == (2, [500, 700, 0])
    assert "is not a key" in err


def test_a_fault_of_ours_is_one_sentence(site: Site) -> None:
    """Whatever it is: here the batch system's own module cannot be understood by Python."""
    broken = site.folder / "sitecustomize.py"
    broken.write_text(
        "import slurm_rl_plugin.hook.memory.carried_factors as m\n"
        "def broken(self, system):\n    raise RuntimeError('two\\nlines')\n"
        "m.CarriedFactors.restore = broken\n"
    )
    site.set_variable("PYTHONPATH", f"{site.folder}:{TOP}")
    code, _, err = site.says("release")
    assert (code, err.count("\n")) == (1, 1)
    assert "RuntimeError: two lines" in err
    assert BY_HAND in err
