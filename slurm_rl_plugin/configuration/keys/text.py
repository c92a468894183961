"""What is to be said of a key, in sentences: for documents, the example file and the man page."""

from __future__ import annotations

import re

from slurm_rl_plugin.configuration.keys.key import Key

#: A link of Markdown: its words, and the document, with or without an anchor.
_LINK = re.compile(r"\[([^]]*)\]\(([^)]*)\)")
#: What is said before the choices of a text, and before the names that a table may have.
_CHOICES = ("One of", "Names are")


def markdown_of(key: Key) -> str:
    """What a key means, its choices and its bounds, on one line of Markdown."""
    choices = ", ".join(f"`{choice}`" for choice in key.choices)
    sentences = [
        f"{key.meaning[0].upper()}{key.meaning[1:]}.",
        f"{_CHOICES[key.kind is dict]} {choices}." if choices else "",
        key.note,
        key.bounds,
        "Read at start only." if key.at_start else "",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def plain(markdown: str) -> str:
    """Markdown without its marks; a link to a document becomes its words and the path of that."""
    return _LINK.sub(_linked, markdown).replace("`", "")


def _linked(link: re.Match[str]) -> str:
    """Words and path; the path alone where the words are no more than the document's name."""
    words, path = link.groups()
    named = words.lower().replace(" ", "-") == path.partition(".")[0]
    return f"docs/{path}" if named else f"{words}: docs/{path}"
