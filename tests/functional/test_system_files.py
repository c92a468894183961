"""Units, user and folders as systemd's own tools see them."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_rl_plugin.configuration.sections import KEYS
from tests.architecture.markdown_documents import (
    DOCUMENTS,
    TOP,
    code_blocks,
    code_spans,
    rollback_line,
    shell_lines,
    table_rows,
)

DEPLOY = TOP / "deploy"
ROLE = DEPLOY / "ansible" / "roles" / "slurm_rl"
UNITS = sorted((DEPLOY / "systemd").iterdir())
SERVICES = [unit for unit in UNITS if unit.suffix == ".service"]
#: 0 is best, 10 is no restriction at all.
MOST_EXPOSED = 1.5


def tool(name: str) -> str:
    path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if path is None:
        pytest.skip(f"needs {name}: run tests/real/install_daemons.sh")
    return path


def run(*command: object) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root folder with our files in their places and the programs and targets they name."""
    units = tmp_path / "usr/lib/systemd/system"
    units.mkdir(parents=True)
    for target in ("sysinit", "basic", "shutdown", "network", "timers", "time-set", "time-sync"):
        (units / f"{target}.target").write_text("[Unit]\n")
    for unit in UNITS:
        place(unit, units / unit.name)
        for program in re.findall(r"^Exec\w+=(/\S+)", unit.read_text(), re.MULTILINE):
            (tmp_path / program[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy("/bin/true", tmp_path / program[1:])
    place(DEPLOY / "sysusers.d/slurm-rl.conf", tmp_path / "usr/lib/sysusers.d/slurm-rl.conf")
    place(DEPLOY / "tmpfiles.d/slurm-rl.conf", tmp_path / "usr/lib/tmpfiles.d/slurm-rl.conf")
    (tmp_path / "etc").mkdir()
    return tmp_path


def place(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def settings(unit: Path) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    return parser


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_understood(unit: Path, root: Path) -> None:
    done = run(tool("systemd-analyze"), "verify", "--man=no", f"--root={root}", unit.name)
    strange = [line for line in done.stderr.splitlines() if "slurm-rl" in line]
    assert (done.returncode, strange) == (0, []), done.stderr


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_services_can_do_little_else(unit: Path) -> None:
    done = run(tool("systemd-analyze"), "security", "--offline=true", "--no-pager", unit)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) <= MOST_EXPOSED


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_no_unit_binds_slurm_to_ours(unit: Path) -> None:
    text = unit.read_text()
    ours = r"^(Requires|Requisite|BindsTo|PartOf|Upholds|Conflicts|RequiredBy|Before)="
    assert not re.search(ours, text, re.MULTILINE)


def test_the_user_of_the_units_is_the_one_that_is_made(root: Path) -> None:
    done = run(tool("systemd-sysusers"), f"--root={root}", "slurm-rl.conf")
    assert done.returncode == 0, done.stderr
    users = {line.split(":")[0] for line in (root / "etc/passwd").read_text().splitlines()}
    groups = {line.split(":")[0] for line in (root / "etc/group").read_text().splitlines()}
    for unit in SERVICES:
        service = settings(unit)["Service"]
        assert service["User"] in users
        assert service["Group"] in groups


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: folders are given to another user")
def test_folders_are_those_of_the_units_and_the_configuration(root: Path) -> None:
    assert run(tool("systemd-sysusers"), f"--root={root}", "slurm-rl.conf").returncode == 0
    done = run(tool("systemd-tmpfiles"), "--create", f"--root={root}", "slurm-rl.conf")
    assert done.returncode == 0, done.stderr
    lines = [line.split(":") for line in (root / "etc/passwd").read_text().splitlines()]
    owners = {"root": 0} | {line[0]: int(line[2]) for line in lines}
    service = settings(DEPLOY / "systemd/slurm-rl.service")["Service"]
    wanted = {
        "etc/" + service["ConfigurationDirectory"]: ("root", 0o755),
        "var/lib/" + service["StateDirectory"]: ("slurmrl", 0o755),
        "var/log/" + service["LogsDirectory"]: ("slurmrl", int(service["LogsDirectoryMode"], 8)),
    }
    for name, (owner, mode) in wanted.items():
        status = (root / name).stat()
        assert status.st_uid == owners[owner], name
        assert stat.S_IMODE(status.st_mode) == mode, name
    notice = root / "run/slurm-rl-notice/starts"
    assert notice.parent.stat().st_uid == 0
    assert notice.stat().st_uid == owners["slurmrl-forecast"]
    assert stat.S_IMODE(notice.stat().st_mode) == 0o644


def test_who_talks_to_strangers_is_not_the_daemon() -> None:
    users = {unit.name: settings(unit)["Service"]["User"] for unit in SERVICES}
    assert users["slurm-rl-offer.service"] != users["slurm-rl.service"]
    assert (
        "SupplementaryGroups" not in settings(DEPLOY / "systemd/slurm-rl-offer.service")["Service"]
    )


def test_the_package_tells_the_rollback_of_the_documents() -> None:
    (document,) = [each for each in DOCUMENTS if each.name == "operators.md"]
    assert rollback_line(document) in (DEPLOY / "debian/prerm").read_text()


def test_an_upgrade_starts_again_what_systemd_was_about_to_start(tmp_path: Path) -> None:
    """A daemon that crashes again and again is just what an upgrade is to mend."""
    script = (DEPLOY / "debian/prerm").read_text().replace("/run/", f"{tmp_path}/run/")
    (tmp_path / "prerm").write_text(script)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    systemctl = tmp_path / "bin/systemctl"
    systemctl.parent.mkdir()
    states = 'case "$2" in *.timer) echo active ;; slurm-rl.service) echo activating; exit 3 ;;'
    systemctl.write_text(
        f'#!/bin/sh\n[ "$1" = is-active ] || exit 0\n{states} *) echo inactive; exit 3 ;; esac\n'
    )
    systemctl.chmod(0o755)
    path = f"{systemctl.parent}:{os.environ['PATH']}"
    done = run("env", f"PATH={path}", "sh", tmp_path / "prerm", "upgrade")
    assert (done.returncode, done.stderr) == (0, "")
    marked = {each.name for each in (tmp_path / "run/slurm-rl-upgrade").iterdir()}
    assert marked == {"slurm-rl.service", "slurm-rl-watchdog.timer"}


def made_by_an_installation(root: Path) -> set[Path]:
    """What units, tmpfiles.d and the documents have made by the time that a site purges it."""
    folders = {"State": "var/lib", "Cache": "var/cache", "Logs": "var/log", "Configuration": "etc"}
    made: set[Path] = set()
    for unit in UNITS:
        for key, value in re.findall(r"^(\w+)=(\S+)$", unit.read_text(), re.MULTILINE):
            if (place := folders.get(key.removesuffix("Directory"))) and key.endswith("Directory"):
                made.add(root / place / value / "some")
            elif key == "EnvironmentFile" and "/default/" in value:  # Debian's
                made.add(root / value.removeprefix("-/"))
            elif key == "WantedBy":
                made.add(root / f"etc/systemd/system/{value}.wants" / unit.name)
    for line in (DEPLOY / "tmpfiles.d/slurm-rl.conf").read_text().splitlines():
        kind, _, path = line.partition(" ")
        if kind in ("d", "f"):
            made.add(root / path.split()[0][1:] / ("some" if kind == "d" else ""))
    return made


def run_of_root_below(root: Path, script: str, word: str, *programs: str) -> list[str]:
    """Run a maintainer's script on files below `root`; the calls of programs that do nothing."""
    text = (DEPLOY / "debian" / script).read_text()
    (root / script).write_text(re.sub(r"(?<= )/(?=etc|var|run)", f"{root}/", text))
    (root / "bin").mkdir(exist_ok=True)
    for program in programs:
        (root / "bin" / program).write_text(f'#!/bin/sh\necho {program} "$@" >>{root}/called\n')
        (root / "bin" / program).chmod(0o755)
    done = run("env", f"PATH={root}/bin:{os.environ['PATH']}", "sh", "-e", root / script, word)
    assert (done.returncode, done.stderr) == (0, "")
    return (root / "called").read_text().splitlines()


def test_a_purge_leaves_nothing_of_what_was_made(tmp_path: Path) -> None:
    made = made_by_an_installation(tmp_path)
    assert {"slurm-rl-experiment", "some", "slurm-rl-watchdog.timer"} <= {
        part for path in made for part in (path.name, path.parent.name)
    }
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    accounts = ("getent", "userdel", "groupdel")
    called = run_of_root_below(tmp_path, "postrm", "purge", "deb-systemd-helper", *accounts)
    assert [path for path in made if path.exists()] == []
    assert not [path for path in made if path.name == "some" and path.parent.exists()]
    users = re.findall(r"^u (\S+)", (DEPLOY / "sysusers.d/slurm-rl.conf").read_text(), re.MULTILINE)
    # a group that has members of the site's stays after its user
    for user in users:
        assert {f"userdel {user}", f"groupdel {user}"} <= set(called)


def test_an_upgrade_leaves_no_link_to_the_timer_that_is_gone(tmp_path: Path) -> None:
    timers = tmp_path / "etc/systemd/system/timers.target.wants"
    timers.mkdir(parents=True)
    gone, site = timers / "slurm-rl-renew.timer", tmp_path / "slurm-rl-renew.timer"
    stamp = tmp_path / "var/lib/systemd/timers/stamp-slurm-rl-renew.timer"
    stamp.parent.mkdir(parents=True)
    stamp.touch()
    programs = ("systemd-sysusers", "systemd-tmpfiles", "runuser")
    gone.symlink_to(site)
    site.touch()
    run_of_root_below(tmp_path, "postinst", "configure", *programs)
    assert gone.exists()  # a unit of the site's own by that name
    site.unlink()
    run_of_root_below(tmp_path, "postinst", "configure", *programs)
    assert not gone.is_symlink()
    assert not stamp.exists()


def test_an_upgrade_lets_root_read_no_notice_in_the_services_folder(tmp_path: Path) -> None:
    link = tmp_path / "etc/motd.d/slurm-rl"
    link.parent.mkdir(parents=True)
    programs = ("systemd-sysusers", "systemd-tmpfiles", "runuser")
    for before, after in (("slurm-rl-forecast/notice", "slurm-rl-notice/starts"), ("own", "own")):
        link.unlink(missing_ok=True)
        link.symlink_to(f"/run/{before}")
        run_of_root_below(tmp_path, "postinst", "configure", *programs)
        assert str(link.readlink()).removeprefix(str(tmp_path)) == f"/run/{after}"


def run_lines_below(root: Path, document: str, *programs: str) -> None:
    """Run those lines of a document that begin with these programs, on files below `root`."""
    for line in shell_lines(TOP / "docs" / document):
        if line.startswith(tuple(f"{each} " for each in programs)):
            below = re.sub(r"(?<= )/(?=etc|opt|run|usr|var)", f"{root}/", line)
            done = subprocess.run(
                ["sh", "-c", below], cwd=TOP, capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, ""), line


def test_what_pip_does_not_install_is_put_in_its_place_and_removed_as_documented(
    tmp_path: Path,
) -> None:
    """By the lines of install.md and of upgrade.md; the package does both by itself."""
    names = ("systemd/system", "sysusers.d", "tmpfiles.d", "logrotate.d", "slurm-rl", "default")
    for folder in (*(f"etc/{each}" for each in names), "usr/local/bin", "opt/slurm-rl/bin"):
        (tmp_path / folder).mkdir(parents=True)
    for each in ("opt/slurm-rl/bin/slurm-rl", "etc/slurm-rl/slurm-rl.toml", "etc/default/slurm-rl"):
        (tmp_path / each).touch()
    run_lines_below(tmp_path, "install.md", "cp", "ln")
    for unit in UNITS:
        assert (tmp_path / "etc/systemd/system" / unit.name).is_file()
    for each in ("sysusers.d/slurm-rl.conf", "tmpfiles.d/slurm-rl.conf", "logrotate.d/slurm-rl"):
        assert (tmp_path / "etc" / each).read_text() == (DEPLOY / each).read_text()
    # the documents go on with `slurm-rl status`
    assert (tmp_path / "usr/local/bin/slurm-rl").resolve() == tmp_path / "opt/slurm-rl/bin/slurm-rl"
    for path in made_by_an_installation(tmp_path):
        if ".wants" not in path.parent.name:  # `systemctl disable` removes these
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    run_lines_below(tmp_path, "upgrade.md", "rm")
    left = [path for path in tmp_path.rglob("*slurm-rl*") if "timers" not in path.parts]
    assert left == []


def test_who_shares_the_state_is_told_to_let_every_unit_write_to_it() -> None:
    (block,) = [
        each.text
        for each in code_blocks(TOP / "docs" / "slurm.md")
        if "systemctl edit" in each.text
    ]
    writes = [unit for unit in SERVICES if "\nStateDirectory=slurm-rl\n" in unit.read_text()]
    assert len(writes) > 2
    assert [unit.name for unit in writes if unit.name not in block] == []


def test_the_package_brings_whatever_a_site_without_a_checkout_takes_from_deploy(
    tmp_path: Path, pages: Path
) -> None:
    """The head node of an Ansible role has the package alone."""
    (tmp_path / "source").symlink_to(TOP)
    (tmp_path / "pages").symlink_to(pages)
    python = tmp_path / "root/opt/slurm-rl/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    script = (DEPLOY / "debian/build.sh").read_text()
    assert script.endswith("\nmain\n")
    (tmp_path / "files.sh").write_text(
        script.removesuffix("main\n") + f"work={tmp_path} root={tmp_path}/root\ninstall_files\n"
    )
    done = run("sh", tmp_path / "files.sh")
    assert (done.returncode, done.stderr) == (0, "")
    brought = {path.name.removesuffix(".gz") for path in (tmp_path / "root").rglob("*.*")}
    brought |= {path.name for path in (tmp_path / "root/usr/share").rglob("*slurm-rl")}
    # pbs comes with the wheel; the others make something of a checkout
    elsewhere = {"debian", "rpm", "container", "site", "ansible", "pbs", "tests"}
    taken = {
        path.name
        for path in DEPLOY.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
        if not elsewhere & set(path.relative_to(DEPLOY).parts)
    }
    made = {path.name for path in pages.rglob("*slurm-rl*")}
    assert made == {"slurm-rl", "_slurm-rl", "slurm-rl.1", "slurm-rl-run.8", "slurm-rl.toml.5"}
    assert (taken | made) - brought == set()


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")
def test_a_package_has_the_same_bytes_whenever_and_wherever_its_files_were_made(
    tmp_path: Path,
) -> None:
    """What is left is what is inside: `make deb-twice`, which takes ten minutes."""
    script = (DEPLOY / "debian/build.sh").read_text().removesuffix("main\n")
    packages = []
    for name, order in (("one", 1), ("another/place", -1)):
        work = tmp_path / name
        for path in ("DEBIAN/control", "usr/b", "usr/a/c", "etc/d")[::order]:
            file = work / "tree" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(
                "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a\n"
            )
            os.utime(file, (order + 5e8, order + 5e8))
        (work / "pack.sh").write_text(
            f"{script}\nwork={work} root={work}/tree control={work}/tree/DEBIAN\n"
            f"export SOURCE_DATE_EPOCH=1000000000\npack\nsize\n"
        )
        done = run("sh", work / "pack.sh")
        assert (done.returncode, done.stderr) == (0, "")
        packages.append(((work / "part.deb").read_bytes(), done.stdout))
    assert packages[0] == packages[1]


def test_the_ansible_role_restarts_the_daemon_for_the_keys_of_its_start() -> None:
    told = re.findall(r"^  - (\S+)$", (ROLE / "vars" / "main.yml").read_text(), re.MULTILINE)
    start = {
        f"{section}.{name}"
        for section, keys in KEYS.items()
        for name, key in keys.items()
        if key.at_start
    }
    assert set(told) == start


def test_variables_of_the_ansible_role_are_documented_with_their_defaults() -> None:
    defaults = (ROLE / "defaults" / "main.yml").read_text()
    given = dict(re.findall(r"^(slurm_rl_\w+): (.*)$", defaults, re.MULTILINE))
    (package, *rows) = table_rows((ROLE / "README.md").read_text())
    assert package[:2] == ["`slurm_rl_package`", "none, required"]
    assert {code_spans(row[0])[0]: code_spans(row[1])[0] for row in rows} == given
    assert code_blocks(ROLE / "README.md")
