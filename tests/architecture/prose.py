"""Check the words of documents, docstrings, comments and messages against a word list.

`python -m tests.architecture.prose [PATH ...]` prints FILE:LINE of each hit, and exits with 1 after
any. Code spans, code blocks, links and identifiers are not checked.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

#: Pattern -> what to write instead.
WORDS = {
    r"foretold|foretells?|foretelling": "forecast (a start time), predict (a run time)",
    r"told|tells?|telling": "say, report, print, know",
    r"stands|stood|standing": "is, applies, holds",
    r"ways? out": "name what restores or ends it",
    r"(?:gives?|gave|given|giving) back": "restore, return, release",
    r"rivals?": "candidate",
    r"invite[sd]?": "attract, allow",
    r"besides?": "next to, in addition to, while",
    r"alike": "similar, of the same template",
    r"worth": "value",
    r"lately": "recently, in the last HOURS",
    r"for good": "permanently",
    r"of which": "begin a new sentence",
    r"so many": "name the number",
    r"whoever|nobody|somebody|of ours": "name the actor",
    r"sure \(\?\)": "inconclusive",
}
_HIT = re.compile(r"\b(?:" + "|".join(f"({each})" for each in WORDS) + r")\b", re.IGNORECASE)
_POINT = re.compile(r"(?<![\w.)\]*/%,:<>])\.\d(?!\w*[fge]\b)")
_DIGIT = "write 0.71, not .71"
_ADVICE = list(WORDS.values())
#: What is not prose: code spans, targets of links, option names, addresses, keys of log lines.
_SKIPPED = re.compile(
    r"``.*?``|`[^`]*`|\]\([^)]*\)|--[\w-]+|https?://\S+|\w*[_/.]\w[\w/.]*|\b\w+=%"
)
#: Others' words, or a record of what was: they keep them.
EXEMPT = ("docs/adr/", "tests/bench/fuzz/corpus/", "tests/architecture/prose.py", "LICENSE")


def hits(text: str) -> Iterator[str]:
    """Say what is wrong in a line of prose, and what to write."""
    bare = _SKIPPED.sub(lambda found: "_" * len(found[0]), text)
    for found in _HIT.finditer(bare):
        yield f"{found[0]!r}: {_ADVICE[found.lastindex - 1 if found.lastindex else 0]}"
    if _POINT.search(re.sub(r"`[^`]*`", "", text)):
        yield _DIGIT


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Give the lines of prose of a file, with their numbers."""
    if path.suffix == ".py":
        with tokenize.open(path) as file:
            for token in tokenize.generate_tokens(file.readline):
                text = token.string
                if token.type == tokenize.COMMENT or (
                    token.type in (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1))
                    and " " in text
                    and not text.startswith(("r", "b"))
                ):
                    yield from enumerate(text.splitlines(), token.start[0])
        return
    in_code = False
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if path.suffix == ".md" and line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, line


def main(given: list[str]) -> int:
    """Check the given files, or all that git knows."""
    listed = subprocess.run(
        ["git", "ls-files", *given], capture_output=True, text=True, check=True
    ).stdout.split()
    found = [
        f"{name}:{number}: {wrong}"
        for name in listed
        if name.endswith((".md", ".py", ".toml", ".yml", ".service", ".timer"))
        and not name.startswith(EXEMPT)
        for number, line in lines_of(Path(name))
        for wrong in hits(line)
        # A claim is printed as the paper prints it, and code in a string is code.
        if wrong != _DIGIT
        or name.endswith(".md")
        or (name.endswith(".py") and line.lstrip().startswith(("#", '"""')))
    ]
    sys.stdout.write("\n".join([*found, f"{len(found)} hits\n"]))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
