"""The quick start as a new user follows it: each of its commands, with a stopwatch."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator

import pytest

from tests.architecture.markdown_documents import TOP, shell_lines
from tests.real.booted_head_node import DAEMON, HeadNode, booted_head_node
from tests.real.daemon import wait_until
from tests.real.prometheus_server import (
    DASHBOARDS,
    OF_LONGER_RUNS,
    api,
    expressions,
    query,
    substituted,
)

pytestmark = pytest.mark.real

DOCUMENT = TOP / "docs" / "quickstart.md"
#: Of Prometheus as the distribution installs it.
PORT = 9090
#: Seconds from the first command to the first data, as the issue of the quick start allows.
LONGEST = 600.0


@pytest.fixture
def node() -> Iterator[HeadNode]:
    """A head node of a site: Slurm runs, jobs are pending, our package is not installed."""
    if api(PORT, "labels") is not None:
        pytest.skip(f"needs port {PORT}: another Prometheus listens there")
    with booted_head_node(TOP) as node:
        node.slurm.set_partition("down")
        for minutes in (9, 5, 7):
            node.slurm.submit(minutes=minutes, user="alice")
        assert not (node.root.folder / "opt/slurm-rl").exists()
        yield node
        node.systemctl("stop", DAEMON, "prometheus.service", check=False)


def commands() -> list[str]:
    """Those of the document; the repository is this checkout."""
    found = shell_lines(DOCUMENT)
    clones = [line for line in found if line.startswith("git clone ")]
    assert len(clones) == 1
    folder = clones[0].rpartition("/")[2].removesuffix(".git")
    return [
        f"git clone --no-hardlinks {TOP} {folder}" if line == clones[0] else line for line in found
    ]


def typed(node: HeadNode, line: str, folder: str) -> str:
    """Run a line as root would type it; the folder that root is in afterwards."""
    environment = [f"{name}={value}" for name, value in os.environ.items() if name[:4] == "PIP_"]
    environment.append(f"SLURM_CONF={node.slurm.env['SLURM_CONF']}")
    script = f"cd {folder}\n{line}\npwd >&9\n"
    where = "/run/folder"
    done = node.root.run(
        "env", *environment, "bash", "-e", "-c", f"exec 9>{where}\n{script}", timeout=LONGEST
    )
    print(done.stdout)  # noqa: T201
    return (node.root.folder / where[1:]).read_text().strip()


def answered(window: str) -> tuple[list[str], list[str]]:
    """Expressions of the dashboards that have data, and those that have none.

    Left out are those of resources: this cluster counts processors alone.
    """
    have: list[str] = []
    lack: list[str] = []
    asked = {
        substituted(each, window=window) for path in DASHBOARDS for _, each in expressions(path)
    }
    for each in sorted(asked):
        if "_resource" not in each:
            has = any(math.isfinite(float(row["value"][1])) for row in query(PORT, each))
            (have if has else lack).append(each)
    return have, lack


def test_the_first_data_come_within_ten_minutes(node: HeadNode) -> None:
    begin = time.monotonic()
    folder, lines = "/srv", commands()
    for line in lines:
        before = time.monotonic()
        folder = typed(node, line, folder)
        print(f"{time.monotonic() - before:6.1f} s  {line}")  # noqa: T201
    wait_until(
        lambda: [each["value"][1] for each in query(PORT, "slurm_rl_up")] == ["1"],
        120,
        "data in Prometheus",
        node.journal,
    )
    took = time.monotonic() - begin
    have, lack = answered("5m")
    print(f"{len(lines)} commands, {took:.0f} s; {len(have)} expressions have data, not", *lack)  # noqa: T201
    later = ("rate(", "ALERTS", *OF_LONGER_RUNS)  # the first two need a second scrape, an alert
    assert took < LONGEST
    assert have
    assert [each for each in lack if not any(word in each for word in later)] == []
    assert not node.carries(), "shadow mode writes nothing"
