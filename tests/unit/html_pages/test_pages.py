"""Pages for people: what is escaped, and what a browser may run."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from jinja2 import UndefinedError

from slurm_rl_plugin.html_pages.pages import render, security_headers

EVIL = "</style><script>alert(1)</script>"
COMMITTEE = {
    "hours": {"each": True, "has_intervals": False, "stretches": 1, "unit": "days", "groups": ()},
    "warnings": (),
    "summary": EVIL,
    "verdict": "",
    "before": EVIL,
    "after": "ours",
    "tables": (),
    "gains": (EVIL,),
    "loses": (),
    "goals": (),
}


def test_every_value_is_escaped_and_none_may_be_missing() -> None:
    page = render("committee.html", title=EVIL, **COMMITTEE)
    assert EVIL not in page
    assert page.count("&lt;script&gt;") == 5  # title and heading, summary, key, list
    with pytest.raises(UndefinedError, match="title"):
        render("committee.html", **COMMITTEE)


def test_the_policy_allows_our_own_style_sheet_alone() -> None:
    page = render("committee.html", title="Waits", **COMMITTEE)
    (style,) = re.findall("<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = dict(security_headers())["Content-Security-Policy"]
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert " style=" not in page
