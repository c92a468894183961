"""Each threat of docs/security.md has a test, and each module of attacks stands there."""

from __future__ import annotations

import re

import pytest

from tests.architecture.markdown_documents import TOP, code_spans, section, table_rows

ATTACKS = TOP / "tests" / "attacks"
THREATS = [
    code_spans(cells[-1])[0]
    for cells in table_rows(section(TOP / "docs" / "security.md", "Threats, each with its test"))
]


@pytest.mark.parametrize("threat", THREATS)
def test_each_threat_has_a_test(threat: str) -> None:
    module, _, name = threat.partition("::")
    assert re.search(rf"def {name}\(", (ATTACKS / module).read_text())


def test_every_attack_stands_among_the_threats() -> None:
    modules = {str(path.relative_to(ATTACKS)) for path in ATTACKS.glob("*/test_*.py")}
    on_real_slurm = {"submitting_user/test_age_on_real_slurm.py"}  # the same attacks once more
    assert modules - on_real_slurm == {threat.partition("::")[0] for threat in THREATS}
