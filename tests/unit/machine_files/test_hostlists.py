from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.machine_files.values import compress, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n1,m2", ["n1", "m2"]),
        ("n[1-3,7]", ["n1", "n2", "n3", "n7"]),
        ("n[008-010]", ["n008", "n009", "n010"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("rack[0-1]n[1-2]", ["rack0n1", "rack0n2", "rack1n1", "rack1n2"]),
        ("n[1-2]-ib,login", ["n1-ib", "n2-ib", "login"]),
        ("[1-2]x", ["1x", "2x"]),
        ("n1 n2", ["n1", "n2"]),
        ("", []),
    ],
)
def test_names_of_a_hostlist(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text",
    ["n[1-3", "n1-3]", "n[a-c]", "n[3-1]", "n[]", "n[1-9999999999]", "n[[1]]", "n[1-999999][1-9]"],
)
def test_what_is_no_hostlist(text: str) -> None:
    with pytest.raises(ValueError, match=r"it|the|\["):
        expand(text)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([f"n{i:03d}" for i in [*range(1, 88), 100]], "n[001-087,100]"),
        (["n9", "n10", "m1", "login"], "n[9-10],m1,login"),
        (["rack0n1", "rack0n2", "rack1n1"], "rack0n[1-2],rack1n1"),
        (["n1", "n01"], "n[1,01]"),
        (["a", "a"], "a,a"),
    ],
)
def test_names_shortened(names: list[str], text: str) -> None:
    assert compress(names) == text


NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,3}[0-9]{0,4}", fullmatch=True)


@given(st.lists(NAMES, max_size=30))
def test_what_is_shortened_expands_to_the_same(names: list[str]) -> None:
    assert expand(compress(names)) == names


@given(
    st.integers(0, 5000), st.integers(0, 300), st.integers(1, 5), st.sampled_from(["n", "rack1-"])
)
def test_a_range_holds_each_number_once(first: int, more: int, width: int, prefix: str) -> None:
    text = f"{prefix}[{first:0{width}d}-{first + more}]"
    names = expand(text)
    assert [int(name.removeprefix(prefix)) for name in names] == list(
        range(first, first + more + 1)
    )
    assert expand(compress(names)) == names
