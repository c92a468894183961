"""Every shell line and setting of docs/reserve.md on a real Slurm: set-up, check, undo by hand."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.architecture.markdown_documents import TOP, code_blocks, shell_lines
from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.daemon_under_test import write_configuration
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease
from tests.real.users import NAME, STAFF, give_him

pytestmark = pytest.mark.real

DOCUMENT = TOP / "docs" / "reserve.md"
#: Lines of slurm.conf.
SETTINGS = [block.text.strip() for block in code_blocks(DOCUMENT) if block.kind == "ini"]
LINES = shell_lines(DOCUMENT)
SET_UP = [line for line in LINES if line.startswith("sacctmgr") and "cpu=-1" not in line]
(UNDO_QOS,) = [line for line in LINES if "cpu=-1" in line]
(UNDO_LICENSES,) = [line for line in LINES if line.startswith("scontrol delete")]
TOML = [block.text for block in code_blocks(DOCUMENT) if block.kind == "toml"]
(KEYS,) = [text for text in TOML if "gres/gpu" not in text]
(GPU_KEYS,) = [text for text in TOML if "gres/gpu" in text]
PLAN = ClusterPlan(nodes=1, processors_per_node=8, accounts={**ACCOUNTS, **STAFF}, lines=SETTINGS)


@pytest.fixture(scope="module")
def cluster(release: SlurmRelease | None) -> Iterator[PrivateSlurm]:
    """Set up as the document says; one interactive job runs, three batch jobs too."""
    skip_without_daemons(release)
    if release is not None:
        pytest.skip("only root can enter another release's folder")
    fewer = [line.replace(":256", ":8") for line in SETTINGS]
    with running_slurm(replace(PLAN, lines=fewer)) as it:
        for line in SET_UP:
            it.run(*shlex.split(line))
        it.submit("--qos=normal", user="bob", minutes=1, seconds=60)
        for _ in range(3):
            it.submit("--licenses=slot:1", user="alice")
        yield it


@pytest.fixture
def folder(cluster: PrivateSlurm, tmp_path: Path) -> Path:
    """His, with a configuration of the document's keys but for the model: one that always asks."""
    give_him(tmp_path)
    write(tmp_path, KEYS)
    return tmp_path


def write(folder: Path, keys: str) -> None:
    reserve = keys[keys.index("[reserve]") :].replace("most_processors = 8", "most_processors = 2")
    write_configuration(folder, "reserve:2", mode="active", cycle=1, more=reserve)


def test_other_keys_are_sound(cluster: PrivateSlurm, folder: Path) -> None:
    """With GPUs and memory that this cluster does not have, as `check` says."""
    write(folder, GPU_KEYS)
    lines = cluster.slurm_rl("check", folder=folder, user=NAME).stdout.splitlines()
    assert any("the batch system shows no gpus" in line for line in lines), lines


def checked(cluster: PrivateSlurm, folder: Path) -> dict[str, str]:
    """Check of the reserve -> result."""
    lines = cluster.slurm_rl("check", folder=folder, user=NAME).stdout.splitlines()
    found = [line.split() for line in lines if line.split()[1] == "reserve"]
    assert found, lines
    return {words[2]: words[0] for words in found}


def test_the_set_up_of_a_qos_passes_every_check_and_its_undo_leaves_nothing(
    cluster: PrivateSlurm, folder: Path
) -> None:
    found = checked(cluster, folder)
    assert set(found.values()) == {"pass"}, found
    assert cluster.slurm_rl("run", "--once", folder=folder, user=NAME).returncode == 0
    assert cluster.qos_limit() == "cpu=5"
    cluster.run(*shlex.split(UNDO_QOS))
    assert cluster.qos_limit() == ""
    (folder / "state.json.limits").unlink()


def test_the_set_up_of_licences_passes_every_check_and_its_undo_leaves_nothing(
    cluster: PrivateSlurm, folder: Path
) -> None:
    write(folder, KEYS.replace('mechanism = "qos"', 'mechanism = "licenses"'))
    found = checked(cluster, folder)
    assert set(found.values()) == {"pass"}, found
    assert cluster.slurm_rl("run", "--once", folder=folder, user=NAME).returncode == 0
    assert "Licenses=slot:3" in cluster.run("scontrol", "-o", "show", "reservation").stdout
    cluster.run(*shlex.split(UNDO_LICENSES))
    assert "slurm-rl" not in cluster.run("scontrol", "-o", "show", "reservation").stdout
    (folder / "state.json.limits").unlink()
