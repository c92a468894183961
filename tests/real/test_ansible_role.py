"""The role of deploy/ansible on a booted head node with a real Slurm."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.markdown_documents import TOP
from tests.real.booted_head_node import DAEMON, HeadNode, booted_head_node
from tests.real.daemon import wait_until
from tests.real.throwaway_root import skip_without

pytestmark = pytest.mark.real

ROLE = TOP / "deploy" / "ansible" / "roles" / "slurm_rl"


@pytest.fixture(scope="module")
def head_node(debian_package: Path) -> Iterator[HeadNode]:
    skip_without("ansible-playbook")
    asked = subprocess.run(["/usr/bin/python3", "-c", "import apt"], check=False)
    if asked.returncode:
        pytest.skip("needs python3-apt: run tests/real/install_daemons.sh")
    with booted_head_node(debian_package.parent, TOP) as node:
        yield node


def play(node: HeadNode, package: Path, **variables: Any) -> dict[str, int]:
    """Run the role; how many tasks were ok, changed, failed, ..."""
    variables["slurm_rl_package"] = str(package)
    variables["slurm_rl_environment"] = {"SLURM_CONF": node.slurm.env["SLURM_CONF"]}
    playbook = [{"hosts": "all", "gather_facts": True, "roles": [{"role": str(ROLE), **variables}]}]
    (node.root.folder / "srv/play.yml").write_text(json.dumps(playbook))
    words = ("ansible-playbook", "--inventory=localhost,", "--connection=local", "/srv/play.yml")
    done = node.root.run(*words, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    recap = done.stdout.rpartition("PLAY RECAP")[2]
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", recap)}


def test_the_role_installs_configures_and_starts_in_shadow_mode(
    head_node: HeadNode, debian_package: Path
) -> None:
    node = head_node
    site: dict[str, Any] = {
        "slurm_rl_shares": {"physics": 0.7, "biology": 0.3},
        "slurm_rl_configuration": {
            "metrics": {"port": 0},
            "hook": {"cycle": 1},
            "guard_rails": {"exempt_qos": ["interactive"]},
        },
        "slurm_rl_job_classes": [{"class": "interactive", "time_limit_at_most": 1800}],
    }
    node.slurm.set_partition("down")
    for minutes in (9, 1, 5):
        node.slurm.submit(minutes=minutes)

    assert play(node, debian_package, **site)["changed"] >= 5
    assert node.systemctl("is-active", DAEMON) == "active"
    assert node.systemctl("is-enabled", DAEMON) == "enabled"
    shown = node.root.run("slurm-rl", "show-config", "--json").stdout
    configuration = json.loads(shown)
    assert configuration["hook"]["mode"] == "shadow"
    assert configuration["guard_rails"]["exempt_qos"] == ["interactive"]
    assert configuration["shares"] == {"physics": 0.7, "biology": 0.3}
    wait_until(lambda: "mode=shadow" in node.journal(), 30, "a cycle", node.journal)
    assert "failure=none fallback=no" in node.journal()
    assert not node.carries()

    assert play(node, debian_package, **site)["changed"] == 0

    before = node.shows("MainPID")
    active = play(node, debian_package, **site, slurm_rl_mode="active")
    assert active["changed"] == 2  # the file, and the reload
    node.wait(True, "factors")
    assert node.shows("MainPID") == before

    site["slurm_rl_configuration"]["metrics"]["max_accounts"] = 50  # read at the start only
    play(node, debian_package, **site, slurm_rl_mode="active")
    assert node.shows("MainPID") not in ("0", before)
    node.wait(True, "factors of the next daemon")

    play(node, debian_package, **site, slurm_rl_mode="active", slurm_rl_state="stopped")
    assert not node.carries()
    assert node.systemctl("is-active", DAEMON, check=False) == "inactive"


def test_a_faulty_configuration_is_not_put_in_place(
    head_node: HeadNode, debian_package: Path
) -> None:
    path = head_node.root.folder / "etc/slurm-rl/slurm-rl.toml"
    before = path.read_text()
    with pytest.raises(AssertionError, match="failed to validate"):
        play(head_node, debian_package, slurm_rl_mode="asleep")
    assert path.read_text() == before


def test_a_role_without_a_package_asks_for_it(tmp_path: Path) -> None:
    skip_without("ansible-playbook")
    book = tmp_path / "play.yml"
    book.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "roles": [str(ROLE)]}]))
    done = subprocess.run(
        ["ansible-playbook", "--inventory=localhost,", "--connection=local", "--check", str(book)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "slurm_rl_package is not set: give the file that make deb wrote" in done.stdout
