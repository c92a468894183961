"""What is to be said of a key, in sentences: for documents, the example file and the man page."""

from __future__ import annotations

import re

from slurm_rl_plugin.configuration.keys.key import Key


def markdown_of(key: Key) -> str:
    """What a key means, its choices and its bounds, on one line of Markdown."""
    choices = ", ".join(f"`{choice}`" for choice in key.choices)
    sentences = [
        f"{key.meaning[0].upper()}{key.meaning[1:]}.",
        f"One of {choices}." if choices else "",
        key.note,
        key.bounds,
        "Read at start only." if key.at_start else "",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def plain(markdown: str) -> str:
    """Markdown without its marks; a link to a document becomes the path of that."""
    linked = re.sub(r"\[[^]]*\]\(([^)]*)\)", r"docs/\1", markdown)
    return linked.replace("`", "")
