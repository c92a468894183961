"""All that is fuzzed: what takes the input, sound inputs to begin with, and words of the format."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from random import Random

from bench.fuzz import log_targets, service_targets
from bench.fuzz.mutations import mutated
from bench.fuzz.service_targets import TOKEN, RaisesBroken
from slurm_rl_plugin.accounting.conversion import convert
from slurm_rl_plugin.accounting.sacct.fields import SACCT_FIELDS
from slurm_rl_plugin.brokers.live.job_document import FIELDS
from tests.architecture.markdown_documents import TOP
from tests.contracts.test_accounting_readers import CASES
from tests.unit.accounting.published_samples import as_csv, f_data, pm100, pods

#: Takes an input and a folder for files; says whether it was taken for sound.
Target = Callable[[bytes, Path], bool]


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """One target.

    Attributes:
        build: makes it; is given a folder that stays.
        seeds: makes sound inputs, likewise.
        tokens: words of the format.
        inputs: of a whole campaign.
    """

    build: Callable[[Path], Target]
    seeds: Callable[[Path], Sequence[bytes]]
    tokens: Sequence[bytes]
    inputs: int

    def generator(self, folder: Path, seed: int) -> Callable[[int], bytes]:
        """Makes the input of each number, the same in every run."""
        seeds = self.seeds(folder)
        return lambda number: mutated(seeds, self.tokens, Random(f"{seed}/{number}"))


def _always(target: Target) -> Callable[[Path], Target]:
    return lambda folder: target


def _case(*names: str) -> list[bytes]:
    return [CASES[name].text.encode() for name in names]


@cache
def _demo() -> bytes:
    """The first jobs of the dump of a real cluster that we ship."""
    text = (resources.files("slurm_rl_plugin") / "cli/demo/logs/cluster-sacct.log").read_bytes()
    return b"\n".join(text.split(b"\n")[:8]) + b"\n"


def _sacct(folder: Path) -> list[bytes]:
    header = "|".join(SACCT_FIELDS)
    row = (
        "c|7|ann|physics|main|normal|a|b|1700000000|1700000000|1700000060|1700003660|3600|120|8|1|"
        "billing=8,cpu=8,gres/gpu:a=1,mem=4G,node=1|"
        "SchedBackfill|run|COMPLETED|sbatch --wrap=a | b\nsecond line"
    )
    return [
        *_case("sacct with a header", "sacct as XDMoD asks"),
        _demo(),
        f"{header}\n{row}\n".encode(),
    ]


def _logs(folder: Path) -> list[bytes]:
    return [*_sacct(folder), *_swf(folder), *_pbs(folder), *_case("sbatch")]


def _swf(folder: Path) -> list[bytes]:
    return _case("swf")


def _pbs(folder: Path) -> list[bytes]:
    return _case("pbs", "torque")


def _any(folder: Path) -> list[bytes]:
    plain = [*_case("swf", "pbs"), _demo()]
    return [*plain, *map(gzip.compress, plain), *_parquet(folder)]


@cache
def _parquet(folder: Path) -> list[bytes]:
    found = []
    for number, text in enumerate([*_case("swf", "pbs"), _demo()]):
        (folder / "seed").write_bytes(text)
        convert([folder / "seed"], folder / f"seed-{number}.parquet")
        found.append((folder / f"seed-{number}.parquet").read_bytes())
    return found


def _data_sets(folder: Path) -> list[bytes]:
    """Generated samples of published data sets.

    Of csv alone: a damaged parquet file may name 2^61 bytes to polars, which then ends the process.
    """
    samples = [sample(6) for sample in (f_data, pm100, pods)]
    return [*(as_csv(each, folder / "sample").read_bytes() for each in samples), *_case("f-data")]


def _configuration(folder: Path) -> list[bytes]:
    example = (TOP / "deploy/slurm-rl.toml").read_text()
    said = "\n".join(line.removeprefix("# ") for line in example.splitlines())
    shares = (TOP / "policy_models/responsive-reserve.toml").read_bytes()
    rules = b'[policy]\nmodel = "sjf"\n[shares]\nphysics = 0.7\nbiology = 0.3\n'
    return [example.encode(), said.encode(), shares, rules]


def _models(folder: Path) -> list[bytes]:
    names = ("default", "reactive-grids", "responsive-reserve")
    return [(TOP / f"policy_models/{name}.onnx").read_bytes() for name in names]


def _request(method: str, path: str, body: str = "", **headers: str) -> bytes:
    given = {"Host": "localhost", "Content-Length": str(len(body)), **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


def _bodies(folder: Path) -> list[bytes]:
    large = {
        "partition": "batch", "qos": "normal", "name": "run", "account": "physics", "user": "ann",
        "processors": 128, "time_limit": 1800.5, "has_batch_script": None,
        "needs": {"gpus": "2"}, "formula": "utility - price / (1 + wait)",
    }  # fmt: skip
    return [json.dumps(each).encode() for each in ({"processors": 4}, large)]


def _offers(folder: Path) -> list[bytes]:
    bearer = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    asked = [_request("POST", "/offer", each.decode(), **bearer) for each in _bodies(folder)]
    return [*asked, asked[1], _request("GET", "/offer"), _request("POST", "/offer", "{}")]


def _scrapes(folder: Path) -> list[bytes]:
    openmetrics = {"Accept": "application/openmetrics-text; version=1.0.0; charset=utf-8"}
    return [
        _request("GET", "/metrics", **openmetrics, **{"Accept-Encoding": "gzip"}),
        _request("GET", "/metrics?name[]=slurm_rl_up"),
        _request("GET", "/"),
        _request("POST", "/metrics", "x"),
    ]


_COLUMNS = [
    *(b",", b'"', b"\r\n", b"nan", b"2021-04-01 10:28:01+09", b"T", b"Z", b"INFINITE", b"inf"),
    *(b"1e400", b"-1", b"4294967295", b"1e30", b"adt", b"gpu_spec", b"|"),
]
_NAMES = [name.lower().encode() for name in SACCT_FIELDS]
_HTTP = [
    *(
        b"HTTP/1.0",
        b"HTTP/9.9",
        b"GET",
        b"HEAD",
        b"PUT",
        b"Content-Length: 9",
        b"Expect: 100-continue",
    ),
    *(b"Transfer-Encoding: chunked", b"\r\n\r\n", b"%00", b"../", b"?name[]=a", b"Accept: */*"),
]
_TOML = [
    b"[",
    b"]]",
    b'"""',
    b"'''",
    b"[[job_class]]",
    b"inf",
    b"{}",
    b"=",
    b"1979-05-27",
    b"[shares]",
]
_JSON = [each.encode() for each in FIELDS] + [
    b"NaN",
    b"Infinity",
    b"1e999",
    b'""',
    b"\\ud800",
    b"[[[[",
]

TARGETS = {
    "swf": Fuzzed(_always(log_targets.read_swf), _swf, [b"; MaxProcs: 4"], 400_000),
    "sacct": Fuzzed(_always(log_targets.read_sacct), _sacct, [b"|", *_NAMES], 100_000),
    "pbs": Fuzzed(_always(log_targets.read_pbs), _pbs, [b"exec_host=", b";S;", b"ctime="], 100_000),
    "any log": Fuzzed(_always(log_targets.read_any), _any, [b"PAR1"], 30_000),
    "conversion": Fuzzed(_always(log_targets.convert_log), _logs, [b"|"], 2_000),
    "data set": Fuzzed(_always(log_targets.convert_log), _data_sets, _COLUMNS, 4_000),
    "parquet": Fuzzed(_always(log_targets.read_parquet), _parquet, [b"PAR1"], 20_000),
    "configuration": Fuzzed(_always(service_targets.configure), _configuration, _TOML, 30_000),
    "model": Fuzzed(_always(service_targets.load_model), _models, [], 20_000),
    "offer": Fuzzed(service_targets.offer_target, _offers, [*_HTTP, *_JSON], 150_000),
    "offer body": Fuzzed(service_targets.offer_body_target, _bodies, _JSON, 150_000),
    "metrics": Fuzzed(service_targets.metrics_target, _scrapes, _HTTP, 50_000),
}


def quiet() -> None:
    """What is refused is no news; what is broken is."""
    logging.getLogger("slurm_rl_plugin").setLevel(logging.CRITICAL)
    for name in ("brokers.live.offer_pages", "metrics.pages"):
        logger = logging.getLogger(f"slurm_rl_plugin.{name}")
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        logger.handlers = [RaisesBroken()]
