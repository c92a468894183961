"""`slurm-rl check` on the table for job_submit.lua: one line where a table is configured."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.class_defaults.checks import class_defaults_of
from slurm_rl_plugin.batch_systems.slurm.commands import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from tests.fakes.fake_cluster import FakeCluster

SCRIPT = Path(__file__).parents[2] / "deploy" / "slurm" / "job_submit.lua"
OWN = "function slurm_job_submit(job, partitions, uid) return slurm.SUCCESS end\n"


def found(tmp_path: Path, table: str, plugins: str, script: str | None) -> list[tuple[str, str]]:
    """Result and sentence of each check."""
    cluster = FakeCluster(tmp_path)
    cluster.set(settings={"JobSubmitPlugins": plugins, "SLURM_CONF": f"{tmp_path}/slurm.conf"})
    if script is not None:
        (tmp_path / "job_submit.lua").write_text(script)
    runner = CommandRunner(environment=cluster.env, timeout=10.0, on_call=None)
    checks = class_defaults_of(Path(table), runner)
    return [(each.result, each.what) for each in checks]


def test_without_a_table_nothing_is_checked(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path)
    checks = {check.name for check in SlurmCommands(cluster.adapter_settings()).own_checks()}
    assert checks == {"clock", "accounting", "shares", "resources"}


@pytest.mark.parametrize(
    ("plugins", "table", "script", "result", "mend"),
    [
        ("(null)", "/t", None, "warn", "set JobSubmitPlugins=lua in slurm.conf"),
        ("require_timelimit", "/t", "ours", "warn", "nobody reads /t"),
        ("lua", "/t", None, "fail", "slurmctld will not start without it"),
        ("lua", "/t", OWN, "warn", "let it call slurm_rl_class_defaults"),
        ("lua", "/t", "ours", "warn", 'set TABLE = "/t" in it'),
        ("lua", "/t", "dofile('ours.lua') -- slurm_rl_class_defaults", "pass", "reads /t"),
        (
            "all_partitions,lua",
            "/var/lib/slurm-rl-class-defaults/table",
            "ours",
            "pass",
            "reads /var",
        ),
    ],
)
def test_what_is_missing_and_its_mend(
    tmp_path: Path, plugins: str, table: str, script: str | None, result: str, mend: str
) -> None:
    text = SCRIPT.read_text() if script == "ours" else script
    (how, what), _ = found(tmp_path, table, plugins, text)
    assert how == result
    assert mend in what


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: folders are given to another user")
@pytest.mark.parametrize(
    ("change", "result", "mend"),
    [
        (lambda table: None, "pass", "only root"),
        (lambda table: table.unlink(), "warn", "install -m 0664 -g slurmrl"),
        (lambda table: os.chown(table.parent, 61001, 0), "warn", "set class_defaults_file to"),
        (lambda table: table.parent.chmod(0o775), "warn", "may write into"),
        (lambda table: os.chown(table, 61001, 0), "warn", "no regular file of root's"),
        (lambda table: (table.unlink(), os.mkfifo(table)), "warn", "no regular file of root's"),
    ],
    ids=["as-shipped", "missing", "folder-of-another", "shared-folder", "file-of-another", "fifo"],
)
def test_who_may_put_another_file_in_its_place(
    tmp_path: Path, change: Callable[[Path], object], result: str, mend: str
) -> None:
    table = tmp_path / "defaults" / "table"
    table.parent.mkdir(mode=0o755)
    table.touch(mode=0o664)
    change(table)
    _, (how, what) = found(tmp_path, str(table), "lua", "dofile('slurm_rl_class_defaults')")
    assert how == result
    assert mend in what
