"""Renders the templates of this room with jinja2, and gives the headers to serve them with."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from slurm_rl_plugin.readable import printable, span_text
from slurm_rl_plugin.whole_file import read_whole

_TEMPLATES = Path(__file__).with_name("templates")
#: Content type of every page.
HTML = "text/html; charset=utf-8"


def render(template: str, **values: Any) -> str:
    """Fill in `templates/TEMPLATE`; every value is escaped, and a missing one is an error."""
    return _environment().get_template(template).render(values)


@cache
def security_headers() -> tuple[tuple[str, str], ...]:
    """HTTP headers for a served page: it may run our own scripts and load nothing from elsewhere.

    The page contains style sheet and scripts, so the browser checks them by their hashes.
    Attributes `style=` are refused: a template draws with SVG and classes.
    """
    scripts = " ".join(_hash(path.name) for path in sorted(_TEMPLATES.glob("*.js")))
    policy = (
        "default-src 'none'",
        f"style-src {_hash('style.css')}",
        f"script-src {scripts}",
        "connect-src 'self'",
        "img-src data:",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'self'",
    )
    return (
        ("Content-Security-Policy", "; ".join(policy)),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["source"] = _source
    environment.filters |= {"span": span_text, "printable": printable}
    return environment


@cache
def _source(name: str) -> str:
    """The style sheet or a script, which becomes part of the page unchanged."""
    return read_whole(_TEMPLATES / name).decode()


def _hash(name: str) -> str:
    digest = hashlib.sha256(_source(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
