"""The widget of Open OnDemand's dashboard, rendered by ruby."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.architecture.markdown_documents import TOP

PARTIAL = TOP / "deploy" / "open_ondemand" / "_slurm_rl_starts.html.erb"
RUBY = shutil.which("ruby")


@pytest.mark.skipif(RUBY is None, reason="needs ruby: apt install ruby")
@pytest.mark.parametrize(
    ("path", "address"),
    [(None, "/starts/"), ("/when/", "/when/"), ('/"><script>', "/&quot;&gt;&lt;script&gt;")],
)
def test_the_widget_shows_the_page_and_contains_no_script(path: str | None, address: str) -> None:
    program = "require 'erb'; puts ERB.new(File.read(ARGV[0]), trim_mode: '-').result"
    environment = {**os.environ, "LANG": "C.UTF-8"}
    environment |= {} if path is None else {"SLURM_RL_STARTS_PATH": path}
    done = subprocess.run(
        [str(RUBY), "-w", "-e", program, str(PARTIAL)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert f'<iframe src="{address}" title=' in done.stdout
    assert f'<a href="{address}">' in done.stdout
    assert "<script" not in done.stdout
    assert "style=" not in done.stdout
