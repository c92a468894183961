"""Example file, man page and tables are made from the definitions of keys."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from slurm_rl_plugin.configuration import KEYS, Key, read_configuration
from slurm_rl_plugin.configuration.generated import (
    example_text,
    generated_files,
)
from slurm_rl_plugin.configuration.key import plain
from slurm_rl_plugin.domain.job_class import DEFAULT_JOB_CLASS_RULES
from tests.architecture.markdown_documents import TOP
from tests.functional.typed import rows_of
from tests.unit.configuration.given_content import configuration_of

#: Signs that TOML, Markdown and roff must be kept from understanding.
STRANGE = {
    "s": {
        "k-e-y": Key(
            kind=str,
            default='a\\b "c" \x7f é 😀',
            help="'quoted\\n.at the start of a line; .SH evil. See [there](there.md#x). 'Tis `so`.",
        ),
        "list": Key(kind=list, default=["a", 'b"'], help="X."),
    }
}


@pytest.mark.parametrize("path", generated_files(), ids=str)
def test_committed_files_are_what_the_definitions_make(path: Path) -> None:
    assert (TOP / path).read_text() == generated_files()[path], (
        "run python -m slurm_rl_plugin.configuration.generated"
    )


def test_the_example_file_is_the_defaults() -> None:
    content = tomllib.loads(example_text())
    found = configuration_of(content)
    assert found.values == read_configuration(None).values
    assert found.goals == read_configuration(None).goals  # without shares
    goals = {**content, "goals": {**content["goals"], "short_jobs": 2.0}}
    assert configuration_of(goals).reward.slowdown == 20.0
    assert {section: list(keys) for section, keys in content.items()} == {
        **{section: list(keys) for section, keys in KEYS.items()},
        "goals": [name for name in KEYS["goals"] if name != "shares"],
        "reward": [],
        "shares": ["from"],
    }
    commented = example_text().partition("these apply:\n")[2]
    rules = configuration_of(tomllib.loads(re.sub(r"(?m)^# ", "", commented)))
    assert rules.classifier.rules == DEFAULT_JOB_CLASS_RULES
    assert max(map(len, example_text().splitlines())) < 100
    for named in re.findall(r"docs/[^\s#:;),]*", example_text()):
        assert (TOP / named.rstrip(".")).is_file()


def test_strange_signs_in_the_example_file() -> None:
    text = example_text(STRANGE)
    content = tomllib.loads(text)
    assert content["s"] == {name: key.default for name, key in STRANGE["s"].items()}
    assert "See docs/there.md#x. 'Tis so." in text


@rows_of("links of Markdown")
def test_a_link_keeps_its_words(words: str, said: str) -> None:
    assert plain(words) == said
