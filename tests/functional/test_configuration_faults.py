"""Each fault of the configuration ends the real command with its sentence and exit code 2."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from slurm_rl_plugin.hook.daemon.lock import only_daemon
from tests.architecture.markdown_documents import TOP
from tests.fakes.fake_cluster import FakeCluster

#: Makes permissions count for root too.
WITHOUT_RIGHTS = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]


class Site:
    """A folder with a configuration that is right, on a fake Slurm."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "site.toml"
        self.env = {**FakeCluster(folder).env, "PYTHONPATH": str(TOP)}
        self.sections = {
            "hook": f'state_file = "{folder}/state.json"\naudit_file = ""\n'
            f'disable_file = "{folder}/DISABLE"\ncycle = 600\n',
            "policy": 'model = "sjf"\n',
            "metrics": "port = 0\n",
        }

    def run(self, *words: str, before: Sequence[str] = (), **env: str) -> tuple[int, list[str]]:
        """Exit code and lines of standard error of `run`, or of the words given."""
        text = "".join(f"[{name}]\n{lines}" for name, lines in self.sections.items())
        self.file.write_text(text)
        verb, *rest = words or ("run",)
        command = [sys.executable, "-m", "slurm_rl_plugin.cli.entry", verb]
        done = subprocess.run(
            [*before, *command, "--config", "site.toml", *rest],
            cwd=self.folder,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        lines = done.stderr.splitlines()
        quiet = (" INFO slurm_rl_plugin.", " WARNING slurm_rl_plugin.")
        return done.returncode, [line for line in lines if not any(each in line for each in quiet)]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def refused(site: Site, *words: str, before: Sequence[str] = (), **env: str) -> str:
    """The one line of a refusal with exit code 2."""
    code, lines = site.run(*words, before=before, **env)
    assert (code, len(lines)) == (2, 1), lines
    assert lines[0].startswith(f"slurm-rl {words[0] if words else 'run'}: ")
    return lines[0].partition(": ")[2]


def test_a_port_that_is_in_use(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        site.sections["metrics"] = f"port = {port}\n"
        assert f"metrics cannot listen on 127.0.0.1:{port}" in refused(site)


@pytest.mark.parametrize("verb", ["run", "check"])
@pytest.mark.parametrize("what", ["missing", "a folder"])
def test_a_model_that_is_no_file(site: Site, verb: str, what: str) -> None:
    path = site.folder / "model.onnx"
    if what == "a folder":
        path.mkdir()
    site.sections["policy"] = f'model = "{path}"\n'
    why = "No such file or directory" if what == "missing" else "Is a directory"
    assert refused(site, verb) == (
        f"model {path} cannot be read ({why}): give the path of a model, or the name of a rule, "
        "in [policy] model."
    )


def needs_setpriv() -> list[str]:
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("permissions do not count for root: install setpriv, or run as another user")
    return WITHOUT_RIGHTS


def test_a_model_that_this_user_may_not_read(site: Site) -> None:
    path = site.folder / "model.onnx"
    path.write_text("secret")
    path.chmod(0)
    site.sections["policy"] = f'model = "{path}"\n'
    assert "cannot be read (Permission denied)" in refused(site, before=needs_setpriv())


def test_a_model_that_is_there_and_broken_does_not_stop_the_daemon(site: Site) -> None:
    """It may break while the site relies on the daemon; docs/troubleshooting.md says what then."""
    path = site.folder / "model.onnx"
    path.write_text("no graph")
    site.sections["policy"] = f'model = "{path}"\n'
    code, lines = site.run("run", "--once")
    assert code == 0
    assert any("model=refused" in line for line in lines)


def test_a_second_daemon(site: Site) -> None:
    with only_daemon(site.folder / "state.json"):
        assert "another slurm-rl run holds" in refused(site)


def test_a_state_folder_that_cannot_be_written(site: Site) -> None:
    (site.folder / "state").mkdir(mode=0o500)
    before = site.sections["hook"]
    site.sections["hook"] = before.replace("/state.json", "/state/state.json")
    fault = refused(site, before=needs_setpriv())
    lock = f"state.json.{socket.gethostname()}.daemon"
    assert f"{lock} cannot be opened (Permission denied): make its folder" in fault
    site.sections["hook"] = before.replace("/state.json", "/none/state.json")
    assert "(No such file or directory): make its folder exist" in refused(site)


def test_a_missing_file_and_no_toml(site: Site) -> None:
    assert "does not exist: write one or give --config." in refused(site, "run", "--config=x.toml")
    site.sections["hook"] += "cycle = 3\n"
    assert refused(site) == "site.toml:6: [hook] cycle is given twice, first in line 5."


def test_thirty_faults_are_thirty_lines_of_every_verb(site: Site) -> None:
    (site.folder / "conf.d").mkdir()
    for number in range(4):
        lines = [f"key{number}{place} = 1" for place in range(6)]
        path = site.folder / "conf.d" / f"{number}.toml"
        path.write_text("\n".join(["[hook]", *lines]))
    site.sections["hook"] += "max_writes = -1\nmode = 3\n"
    env = {"SLURM_RL_HOOK_CYCLE": "x", "SLURM_RL_METRICS_PORT": "-1"}
    flags = ("--set", "hook.cycle=y", "--set", "hook.cyle=1")
    for verb in ("run", "check", "show-config", "queue", "audit"):
        code, lines = site.run(verb, *flags, **env)
        assert (code, len(lines)) == (2, 30), (verb, lines)
        assert lines[0].startswith(f"slurm-rl {verb}: site.toml:6: [hook] max_writes is -1")
        assert (
            lines[25]
            == "conf.d/3.toml:7: [hook] key35 is unknown, give one of "
            + (lines[25].partition("give one of ")[2])
        )
    code, lines = site.run("release", *flags, **env)
    assert (code, len(lines)) == (2, 2)  # what was typed, before anything is done
    code, lines = site.run("release", **env)  # and the others keep no factor
    assert (code, len(lines)) == (1, 29), lines
    assert lines[28].endswith("is not there: running jobs may keep a factor.")


def test_a_fault_of_the_environment_or_a_flag_needs_no_file_to_be_wrong(site: Site) -> None:
    fault = "[hook] cycle is 'x', give a number."
    assert refused(site, SLURM_RL_HOOK_CYCLE="x") == f"SLURM_RL_HOOK_CYCLE: {fault}"
    assert refused(site, "run", "--set", "hook.cycle=x") == f"--set hook.cycle=x: {fault}"
