"""The program that times decisions with and without resources: it runs, and measures both."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.architecture.markdown_documents import TOP


def test_both_sides_are_measured() -> None:
    words = (*("--jobs", "300"), *("--pairs", "2"), *("--policy", "sjf"))
    done = subprocess.run(
        [sys.executable, "-m", "bench.speed.requested_resources", *words],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["jobs"] == 300
    for looks in ("first look", "later looks"):
        assert found[looks]["ratio"]["pairs"] == 2
        assert all(seconds > 0 for seconds in found[looks]["seconds_with_and_without"]["whole"])
