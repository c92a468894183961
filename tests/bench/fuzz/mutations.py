"""Mutates sound inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

#: Longest input, bytes.
LONGEST = 1 << 16
_NUMBERS = (
    *(b"-1", b"0", b"1", b"00", b"1e308", b"nan", b"inf", b"-0", b"1_000", b"0x10", b".5", b"2.5"),
    *(str(2**power + off).encode() for power in (31, 32, 53, 63, 64) for off in (-1, 0)),
    b"9" * 40,
)
_TOKENS = (
    *(b"\n", b"\r\n", b"\r", b"\0", b"|", b";", b"=", b'"', b"'", b" ", b"\t", b"", b".", b":"),
    *(b"{", b"}", b"[", b"]", b"\\", b"%", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\x1f\x8b"),
    *("²٣é\u2028\U0001f600".encode(), b"Unknown", b"None", b"null", b"true", b"E", b"#", b"-"),
    *(
        b"T",
        b"INVALID",
        b"UNLIMITED",
        b"1970-01-01T00:00:00",
        b"0000-00-00T99:99:99",
        b"1-00:00:00",
    ),
)


def mutated(seeds: Sequence[bytes], tokens: Sequence[bytes], rng: Random) -> bytes:
    """Mutates one of the sound inputs; `tokens` are words of the format to insert anywhere."""
    if rng.random() < 0.02:
        return rng.randbytes(rng.randrange(200))
    content = rng.choice(seeds)
    for _ in range(1 + _some(rng, 0.5, 12)):
        harm = rng.choice(_HARMS)
        content = harm(content, [*_TOKENS, *_NUMBERS, *tokens], seeds, rng)[:LONGEST]
    return content


def _some(rng: Random, rate: float, most: int) -> int:
    return int(min(rng.expovariate(rate), most))


_Harm = Callable[[bytes, Sequence[bytes], Sequence[bytes], Random], bytes]


def _flip(content: bytes, tokens: Sequence[bytes], seeds: Sequence[bytes], rng: Random) -> bytes:
    if not content:
        return content
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]


def _insert(content: bytes, tokens: Sequence[bytes], seeds: Sequence[bytes], rng: Random) -> bytes:
    place = rng.randint(0, len(content))
    return content[:place] + rng.choice(tokens) * rng.choice((1, 1, 1, 2, 50)) + content[place:]


def _replace(content: bytes, tokens: Sequence[bytes], seeds: Sequence[bytes], rng: Random) -> bytes:
    """Replaces a run of letters and digits."""
    place = rng.randint(0, len(content))
    begin, end = place, place
    while begin and content[begin - 1 : begin].isalnum():
        begin -= 1
    while end < len(content) and content[end : end + 1].isalnum():
        end += 1
    return content[:begin] + rng.choice(tokens) + content[end:]


def _drop(content: bytes, tokens: Sequence[bytes], seeds: Sequence[bytes], rng: Random) -> bytes:
    begin = rng.randint(0, len(content))
    return content[:begin] + content[begin + _some(rng, 0.1, 1000) :]


def _double(content: bytes, tokens: Sequence[bytes], seeds: Sequence[bytes], rng: Random) -> bytes:
    begin = rng.randint(0, len(content))
    end = begin + _some(rng, 0.05, 1000)
    return content[:end] + content[begin:end] * rng.choice((1, 1, 2, 8)) + content[end:]


def _cut(content: bytes, tokens: Sequence[bytes], seeds: Sequence[bytes], rng: Random) -> bytes:
    return content[: rng.randint(0, len(content))]


def _lines(content: bytes, tokens: Sequence[bytes], seeds: Sequence[bytes], rng: Random) -> bytes:
    """Moves, doubles or removes a line."""
    lines = content.split(b"\n")
    line = lines.pop(rng.randrange(len(lines)))
    for _ in range(rng.choice((0, 1, 1, 2))):
        lines.insert(rng.randint(0, len(lines)), line)
    return b"\n".join(lines)


def _splice(content: bytes, tokens: Sequence[bytes], seeds: Sequence[bytes], rng: Random) -> bytes:
    other = rng.choice(seeds)
    return content[: rng.randint(0, len(content))] + other[rng.randint(0, len(other)) :]


_HARMS: tuple[_Harm, ...] = (
    *(_flip, _insert, _insert, _replace, _replace, _replace, _drop, _double, _lines, _lines),
    *(_cut, _splice),
)
