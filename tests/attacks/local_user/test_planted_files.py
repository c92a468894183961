"""A user plants files and folders where a colleague's program looks for its own."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import pytest

from slurm_rl_plugin import __version__
from slurm_rl_plugin.batch_systems.command_process import start_python
from slurm_rl_plugin.brokers.live.routed_jobs import LONGEST_WAIT, SharedExperience
from slurm_rl_plugin.brokers.registry import MetAtSite
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.checkpoint import Checkpoint, check_checkpoint
from slurm_rl_plugin.simulator.kernel import kept_code
from slurm_rl_plugin.whole_file import (
    own_file,
    own_folder,
    owner_of_folder,
    read_own,
    replacing,
)
from tests.architecture.markdown_documents import TOP
from tests.attacks.another_user import DAEMON, STRANGER, as_user, needs_root

pytestmark = needs_root
#: The user whom the stranger attacks.
VICTIM = DAEMON


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that all may write into, as /tmp, with a file of the victim's in another one."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-rl-attack-", dir="/tmp"))
    folder.chmod(0o1777)
    (folder / "home").mkdir(mode=0o755)
    (folder / "home" / ".bashrc").write_text("alias ll=ls\n")
    for each in (folder / "home", folder / "home" / ".bashrc"):
        os.chown(each, VICTIM, VICTIM)
    yield folder
    shutil.rmtree(folder)


def refused(act: Callable[[], Any]) -> str:
    """Why the victim does not take what lies there; "" where it is taken."""

    def tried() -> str:
        try:
            act()
        except (OSError, ConfigurationError) as error:
            return str(error)
        return ""

    return str(as_user(VICTIM, tried))


def plant(act: Callable[[], Any]) -> None:
    """Let the stranger do something."""

    def planted() -> None:
        os.umask(0)
        act()

    as_user(STRANGER, planted)


def test_a_folder_of_another_user_is_not_taken(shared: Path) -> None:
    there = shared / "model.onnx.workers"
    plant(lambda: there.mkdir(0o777))
    assert f"belongs to uid {STRANGER}" in refused(lambda: own_folder(there))
    there.rmdir()
    plant(lambda: there.symlink_to(shared / "home"))
    assert "it is a link" in refused(lambda: own_folder(there))
    there.unlink()
    assert refused(lambda: own_folder(there)) == ""
    assert there.stat().st_mode & 0o7777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707])
def test_a_folder_that_others_may_write_into_is_not_taken(shared: Path, mode: int) -> None:
    inner = shared / "home" / "project" / "workers"
    assert refused(lambda: own_folder(inner)) == ""
    inner.chmod(mode)
    assert f"(mode {mode:04o})" in refused(lambda: own_folder(inner))


def test_a_file_of_another_user_is_not_read_and_a_link_not_followed(shared: Path) -> None:
    there, bashrc = shared / "model.onnx.checkpoint", shared / "home" / ".bashrc"
    for planted in (
        lambda: there.write_text("{}\n[1]\n"),
        lambda: there.symlink_to(bashrc),
        lambda: os.mkfifo(there),
        there.mkdir,
    ):
        plant(planted)
        for act in (
            lambda: read_own(there),
            lambda: own_file(there, os.O_WRONLY | os.O_CREAT),
            lambda: Checkpoint(there, {}),
            lambda: check_checkpoint(there),
        ):
            assert refused(act), planted
        there.rmdir() if there.is_dir() and not there.is_symlink() else there.unlink()
    os.link(bashrc, there)
    assert refused(lambda: read_own(there))
    assert bashrc.read_text() == "alias ll=ls\n"


def test_a_file_that_others_may_change_is_not_read(shared: Path) -> None:
    there = shared / "home" / "state"
    as_user(VICTIM, lambda: there.write_text("{}"))
    for mode in (0o666, 0o620, 0o602):
        there.chmod(mode)
        assert f"(mode {mode:04o})" in refused(lambda: read_own(there))
    there.chmod(0o640)
    assert refused(lambda: read_own(there)) == ""


def test_another_users_file_is_read_only_if_the_caller_names_its_owner(
    shared: Path,
) -> None:
    """The daemon's queue file is such; a stranger can put a folder in the place of another one."""
    theirs = shared / "theirs"
    plant(lambda: theirs.mkdir(0o755))
    plant(lambda: (theirs / "kept").touch(0o644))
    assert refused(lambda: read_own(theirs / "kept"))
    assert refused(lambda: Checkpoint(theirs / "kept", {}))
    owners = owner_of_folder(theirs / "kept")
    assert refused(lambda: read_own(theirs / "kept", owners=owners)) == ""
    theirs.chmod(0o777)
    assert owner_of_folder(theirs / "kept") == set()


@pytest.mark.parametrize("for_all", [True, False])
def test_a_link_laid_while_a_file_is_written_is_not_followed(shared: Path, for_all: bool) -> None:
    """A stranger sees the temporary name as soon as it is there."""
    bashrc, folder = shared / "home" / ".bashrc", shared / "open"
    folder.mkdir()
    folder.chmod(0o777)
    bashrc.chmod(0o600)

    def lay_a_link() -> None:
        (there,) = folder.glob(".model.*.part")
        there.unlink()
        there.symlink_to(bashrc)

    os.seteuid(VICTIM)
    try:
        with replacing(folder / "model", for_all=for_all) as file:
            os.seteuid(0)
            plant(lay_a_link)
            os.seteuid(VICTIM)
            file.write(b"model")
    finally:
        os.seteuid(0)
    assert bashrc.read_text() == "alias ll=ls\n"
    assert bashrc.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o700, 0o775, 0o660])
def test_the_private_group_of_a_person_is_no_group_of_a_service(
    shared: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """The forecast service runs in the daemon's group, and no list of members shows it."""
    folder = shared / "home" / "own"
    folder.mkdir()
    os.chown(folder, VICTIM, VICTIM)
    folder.chmod(mode)

    def taken(number: int, others: tuple[str, ...]) -> bool:
        users = [("me", VICTIM), *((each, VICTIM) for each in others)]
        known = [pwd.struct_passwd((each, "x", number, gid, "", "/", "")) for each, gid in users]
        monkeypatch.setattr(pwd, "getpwuid", lambda _: known[0])
        monkeypatch.setattr(pwd, "getpwall", lambda: known)
        monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("me", "x", gid, [])))
        return refused(lambda: own_folder(folder)) == ""

    closed = mode == 0o700
    assert [taken(1000, ()), taken(1000, ("other",)), taken(999, ())] == [True, closed, closed]


def test_ones_own_compiled_code_is_for_oneself_whatever_the_umask(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = shared / "home"
    compiled = home / ".cache" / "slurm-rl" / "compiled"
    monkeypatch.setenv("HOME", str(home))
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(numba.config, "CACHE_DIR", numba.config.CACHE_DIR)

    def first_run() -> list[str]:
        os.umask(0o002)
        kept_code.keep_compiled_code()
        assert kept_code.kept_code() == compiled
        return [oct(compiled.stat().st_mode & 0o7777), *(each.name for each in compiled.iterdir())]

    assert as_user(VICTIM, first_run) == ["0o700"]
    compiled.chmod(0o777)  # as releases before made it, where the umask let them
    assert as_user(VICTIM, first_run) == ["0o755"]


def test_a_folder_in_the_place_of_compiled_code_is_never_emptied(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger may rename what the victim has in a folder that both may write into."""
    project = shared / "project"
    project.mkdir()
    project.chmod(0o777)

    def work() -> None:
        os.umask(0o002)
        (project / "results").mkdir()
        (project / "results" / "thesis").touch()

    as_user(VICTIM, work)
    plant(lambda: (project / "results").rename(project / "numba"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(project / "numba"))
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(project / "numba"))

    def run() -> str:
        kept_code.keep_compiled_code()
        return str(kept_code.kept_code())

    assert as_user(VICTIM, run) != str(project / "numba")
    assert (project / "numba" / "thesis").exists()


@pytest.mark.parametrize("mode", [0o644, 0o666])
@pytest.mark.parametrize("owner", [VICTIM, STRANGER])
def test_compiled_code_is_looked_at_file_by_file(shared: Path, owner: int, mode: int) -> None:
    """Whatever its folder was once: numba unpickles these."""
    folder = shared / "home" / "compiled"
    folder.mkdir()
    folder.chmod(0o777)
    kept = ("function", "stamp")

    def keep() -> None:
        os.umask(0)
        kept_code._OwnCode(str(folder), *kept).save("signature", b"code")

    as_user(owner, keep)
    assert {each.stat().st_mode & 0o777 for each in folder.iterdir()} == {0o644}
    for each in folder.iterdir():
        each.chmod(mode)

    def loaded() -> bool:
        return kept_code._OwnCode(str(folder), *kept).load("signature") == b"code"

    assert as_user(VICTIM, loaded) == ((owner, mode) == (VICTIM, 0o644))


def test_a_child_of_ours_finds_no_module_in_the_folder_where_a_verb_was_typed(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("slurm_rl_plugin/__init__.py", "slurm_rl_plugin/cli/entry.py", "json.py"):
        there = shared / name
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text("print('planted')")
    monkeypatch.chdir(shared)
    monkeypatch.setenv("PYTHONPATH", str(TOP))
    (shared / "program.py").write_text("import json, os; print(json.dumps(os.getcwd()))")
    for words, said in (
        (["-m", "slurm_rl_plugin.cli.entry", "--version"], f"slurm-rl {__version__}"),
        ([str(shared / "program.py")], '"/"'),
    ):
        child = start_python(words, stdout=subprocess.PIPE)
        assert child.communicate()[0].decode().strip() == said


NOW = 1_800_000_000.0


def tell(folder: Path, user: int, wait: float) -> None:
    """What a user's own `slurm-rl route` does."""
    met = {"north": MetAtSite(mean_wait=wait, heard=NOW, count=3)}
    as_user(user, lambda: SharedExperience(folder, user).tell(met))


def test_nobody_speaks_for_another_user_of_the_login_node(shared: Path) -> None:
    """What the stranger says of himself is one voice; what he plants under other names, none."""
    for user, wait in ((61003, 60.0), (61004, 90.0), (61005, 120.0)):
        tell(shared, user, wait)
    lie = f'{{"sites": {{"north": {{"mean_wait": 1e300, "heard": {NOW}}}}}}}'

    def plant() -> list[str]:
        (shared / f"{STRANGER}.json").write_text(lie)
        failed = []
        for user in (61003, 61004):  # there already
            try:
                (shared / f"{user}.json").write_text(lie)
                failed.append(f"wrote {user}")
            except PermissionError:
                pass
            try:
                (shared / f"{user}.json").unlink()
                failed.append(f"removed {user}")
            except PermissionError:
                pass
        for user in range(62000, 62050):  # not there yet
            (shared / f"{user}.json").write_text(lie)
        (shared / "62050.json").symlink_to(shared / f"{STRANGER}.json")
        (shared / f"0{STRANGER}.json").write_text(lie)  # himself again
        os.mkfifo(shared / "62051.json")
        return failed

    assert as_user(STRANGER, plant) == []
    waits = as_user(VICTIM, lambda: SharedExperience(shared, VICTIM).waits(NOW))
    assert waits == {"north": 105.0}  # of 60, 90, 120 and one lie
    tell(shared, VICTIM, 30.0)  # his own is no news to him
    assert as_user(VICTIM, lambda: SharedExperience(shared, VICTIM).waits(NOW)) == waits
    (shared / f"{STRANGER}.json").write_text(lie.replace(f"{NOW}", "1e300"))  # not yet heard
    assert as_user(VICTIM, lambda: SharedExperience(shared, VICTIM).waits(NOW)) == {"north": 90.0}
    assert SharedExperience(shared, VICTIM).waits(NOW + LONGEST_WAIT + 1.0) == {}


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", '{"sites": 1}', '{"sites": {"north": {}}}', "[" * 10000, "x" * 100000),
        '{"sites": {"north": {"mean_wait": NaN, "heard": 1}}}',
        '{"sites": {"north": {"mean_wait": "much", "heard": 1}}}',
    ],
)
def test_a_voice_that_makes_no_sense_is_not_heard(shared: Path, text: str) -> None:
    tell(shared, 61003, 60.0)
    as_user(STRANGER, lambda: (shared / f"{STRANGER}.json").write_text(text))
    assert SharedExperience(shared, VICTIM).waits(NOW) == {"north": 60.0}


def test_a_name_that_a_stranger_took_costs_the_victims_voice_only(shared: Path) -> None:
    as_user(STRANGER, lambda: (shared / f"{VICTIM}.json").write_text("{}"))
    assert "Operation not permitted" in refused(
        lambda: SharedExperience(shared, VICTIM).tell({"north": MetAtSite(count=1)})
    )
    assert sorted(path.name for path in shared.iterdir()) == [f"{VICTIM}.json", "home"]


def test_a_folder_in_which_users_replace_files_of_each_other_is_refused(shared: Path) -> None:
    shared.chmod(0o777)
    assert "sticky" in refused(lambda: SharedExperience(shared, VICTIM).waits(NOW))
