"""Sphinx: the manual as a site. `make site` builds it from the Markdown where it lies."""

from pathlib import Path
from typing import Any

project = "slurm_rl_plugin"
html_title = project
root_doc = "README"
extensions = ["myst_parser"]
include_patterns = [
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("docs/**.md", "policy_models/*.md", "deploy/**.md"),
]
myst_heading_anchors = 4
html_theme = "furo"
html_copy_source = False
# Links to folders, and console blocks with output.
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure"]

#: Part of the side bar -> its pages; those of research and of decisions follow by name.
CONTENTS = {
    "Install": "quickstart install upgrade rollout",
    "Operate": "operators troubleshooting log-events metrics security faq",
    "Configure": "configuration order reserve slurm pbs",
    "Forecasts and trials": "when-jobs-start forecast-api what-if experiment",
    "Look up": "glossary",
    "Research": "research/*",
    "Develop": "architecture adr/*",
}
OTHERS = ("CHANGELOG", "CONTRIBUTING", "SECURITY", "policy_models/*", "deploy/**")


def add_contents(app: Any, name: str, source: list[str]) -> None:
    """Append the side bar to the README, which shows no directives where it is read elsewhere."""
    if name != root_doc:
        return
    parts = {
        caption: [f"docs/{page}" for page in pages.split()] for caption, pages in CONTENTS.items()
    }
    listed = {Path(page).name for pages in parts.values() for page in pages}
    written = {path.stem for path in (Path(app.srcdir) / "docs").glob("*.md")}
    assert written <= listed, f"pages without a place in the side bar: {written - listed}"
    for caption, pages in {**parts, "Project": list(OTHERS)}.items():
        body = "\n".join(pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {caption}\n\n{body}\n```\n"


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_contents)
