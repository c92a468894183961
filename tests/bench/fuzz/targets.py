"""All fuzz targets: what takes the input, sound inputs, and words of the format."""

from __future__ import annotations

import gzip
import json
import logging
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import cache, partial
from importlib import resources
from pathlib import Path
from random import Random

import numpy as np

from slurm_rl_plugin.accounting.conversion import convert
from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.pbs.reader import PbsReader
from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.accounting.sacct.fields import SACCT_FIELDS
from slurm_rl_plugin.accounting.sacct.reader import SacctReader, plain_lines, recognise
from slurm_rl_plugin.accounting.stored.log import StoredLog
from slurm_rl_plugin.accounting.swf.reader import SwfReader
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    QUEUE_FIELDS,
    parse_records,
    queue_fields,
)
from slurm_rl_plugin.batch_systems.slurm.queue.job_tables import (
    RowNumbers,
    TableBuilder,
    first_of_each_array,
    waiting_tasks,
)
from slurm_rl_plugin.batch_systems.slurm.queue.reader import whole_jobs
from slurm_rl_plugin.batch_systems.slurm.site_factor import parse_priorities, parse_terms
from slurm_rl_plugin.brokers.live.job_document import FIELDS
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES
from slurm_rl_plugin.errors import AccountingLogError, BatchSystemError, ConfigurationError
from slurm_rl_plugin.machine_files.reader import read_machine
from tests.architecture.markdown_documents import TOP
from tests.assets.record_slurm_answers import MARK
from tests.bench.fuzz import service_targets
from tests.bench.fuzz.mutations import mutated
from tests.bench.fuzz.service_targets import TOKEN, RaisesBroken, Target, refuses_by
from tests.contracts.test_accounting_readers import CASES
from tests.functional.small_site import CONF
from tests.unit.accounting.published_samples import as_csv, f_data, pm100, pods


@refuses_by(ConfigurationError)
def read_conf(content: bytes, folder: Path) -> bool:
    """A slurm.conf, for `--cluster`."""
    path = folder / "slurm.conf"
    path.write_bytes(content)
    assert read_machine(path).partitions
    return True


@refuses_by(BatchSystemError)
def read_priorities(content: bytes, folder: Path) -> bool:
    """Output of sprio in each cycle."""
    text = content.decode("utf-8", "replace")
    told = parse_priorities(text)
    parse_terms(text, range(100))
    return bool(len(told.best({})))


def read_queue(content: bytes, folder: Path) -> bool:
    """Output of squeue in each cycle, without and with memory and GPUs."""
    text = content.decode("utf-8", "replace")
    plain, with_requests = (
        _read(text, fields) for fields in (QUEUE_FIELDS, queue_fields(requests=True))
    )
    return plain or with_requests


def _read(text: str, fields: Sequence[str]) -> bool:
    try:
        rows = whole_jobs([*parse_records(text, MARK, {}, fields).values()])
    except BatchSystemError:
        return False
    numbers = RowNumbers(JobClassifier())
    table = TableBuilder((), numbers, BASIC_RESOURCES).jobs(first_of_each_array(rows))
    assert len(table.job_id) <= len(rows)
    assert all(tasks > 0 for tasks in waiting_tasks(rows).values())
    return bool(rows)


#: The end of a run in a PBS log.
_PBS_END = re.compile(rb"([^\s;]*:)?\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(\.\d+)?;E;[^;]*;")


@refuses_by(AccountingLogError)
def read_swf(content: bytes, folder: Path) -> bool:
    """A log in SWF; every row is a record."""
    content, file = _file(content)
    log, report = SwfReader().read(file)
    rows = [line.split() for line in content.decode("latin-1").split("\n")]
    assert report.read == sum(bool(row) and not row[0].startswith(";") for row in rows)
    return _accounted_for(log, report)


@refuses_by(AccountingLogError)
def read_sacct(content: bytes, folder: Path) -> bool:
    """A dump of sacct; every whole row of a job, not of a step, is a record."""
    content, file = _file(content)
    log, report = SacctReader().read(file)
    lines = plain_lines(content)
    layout = recognise(file, lines)
    rows = [fields for line in lines if (fields := layout.cut(line)) is not None]
    whose = [layout.column[name] for name in ("jobid", "jobidraw") if name in layout.column]
    told = [next((row[place] for place in whose if row[place]), "") for row in rows]
    records = sum("." not in each for each in told)
    assert report.read >= records
    return _accounted_for(log, report)


@refuses_by(AccountingLogError)
def read_pbs(content: bytes, folder: Path) -> bool:
    """An accounting file of PBS; every line is counted, and every end is read."""
    content, file = _file(content)
    log, report = PbsReader(UTC).read(file)
    lines = [line for line in content.split(b"\n") if line.decode("utf-8", "replace").strip()]
    assert report.read + sum(report.other_records.values()) == len(lines)
    ends = sum(bool(_PBS_END.match(line.strip())) for line in lines)
    assert ends <= report.read
    return _accounted_for(log, report)


@refuses_by(AccountingLogError)
def read_any(content: bytes, folder: Path) -> bool:
    """A file of any format, also gzipped, cut or wrong."""
    path = folder / "any"
    path.write_bytes(content)
    log, report = read_log(path)
    return _accounted_for(log, report)


@refuses_by(AccountingLogError)
def convert_log(content: bytes, folder: Path) -> bool:
    """A converted log equals the log; one without a job that ran is refused."""
    path, output = folder / "log", folder / "log.parquet"
    path.write_bytes(content)
    try:
        expected = read_log(path)
    except AccountingLogError:
        expected = None
    try:
        report = convert([path], output, batch=700, part=7)
    except AccountingLogError as error:
        if expected is not None and len(expected[0]):
            raise AssertionError("readable, but not converted") from error
        raise
    assert expected is not None, "converted, but not readable"
    log, told = read_log(output)
    assert told == report == expected[1]
    assert repr(log) == repr(expected[0])
    return _accounted_for(log, report)


@refuses_by(AccountingLogError)
def read_parquet(content: bytes, folder: Path) -> bool:
    """A damaged converted log."""
    path = folder / "any.parquet"
    path.write_bytes(content)
    log = StoredLog(path).log()
    assert (log.run_time > 0).all()
    return True


def _file(content: bytes) -> tuple[bytes, LogFile]:
    """A log without the bytes that every reader refuses."""
    content = content.replace(b"\0", b"").removeprefix(b"\xef\xbb\xbf")
    return content, LogFile(Path("log"), content)


def _accounted_for(log: JobLog, report: ReadReport) -> bool:
    assert report.read == report.kept + sum(report.dropped.values())
    assert all(count > 0 for count in report.dropped.values())
    assert len(log) == report.kept == len(log.qos) == len(log.submit_line)
    assert (log.run_time > 0).all()
    assert (log.processors > 0).all()
    assert (np.diff(log.submit) >= 0).all()
    assert not (log.start < log.submit).any()
    for name in ("account", "user", "partition"):
        index = getattr(log, name)
        assert not len(index) or 0 <= index.min() <= index.max() < len(getattr(log, f"{name}s"))
    return True


_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """One target."""

    build: Callable[[Path], Target]  #: makes it, in a folder that is kept
    seeds: Callable[[Path], Sequence[bytes]]  #: makes sound inputs in that folder
    tokens: Sequence[bytes]  #: words of the format
    inputs: int  #: number in a whole campaign
    kept: str = ""  #: folder in `corpus` with inputs that reach further code

    def kept_inputs(self) -> list[bytes]:
        """Former findings, and inputs that reach code which sound inputs do not reach."""
        found = sorted((_HERE / "corpus" / self.kept).iterdir()) if self.kept else []
        return [path.read_bytes() for path in found]

    def generator(self, folder: Path, seed: int) -> Callable[[int], bytes]:
        """A function from a number to its input, the same in every run."""
        sound, kept = self.seeds(folder), self.kept_inputs()

        def generate(number: int) -> bytes:
            rng = Random(f"{seed}/{number}")
            seeds = kept if kept and rng.random() < 0.3 else sound
            return mutated(seeds, self.tokens, rng)

        return generate


def _always(target: Target) -> Callable[[Path], Target]:
    return lambda folder: target


def _case(*names: str) -> list[bytes]:
    return [CASES[name].text.encode() for name in names]


@cache
def _demo() -> bytes:
    """The first jobs of the shipped dump of a real cluster."""
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
    return [*_sacct(folder), *_case("swf", "pbs", "torque", "sbatch")]


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
    """Generated samples of published data sets, as csv.

    A damaged parquet file may make polars allocate 2^61 bytes, which ends the process.
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


def _heads(folder: Path) -> list[bytes]:
    """Requests of several clients."""
    many = {f"X-{number}": "v" * 40 for number in range(30)}
    return [
        *_offers(folder),
        _request("POST", "/offer", '{"processors": 1}', Authorization=f"Bearer {TOKEN}", **many),
        b"GET http://localhost:9344/offer?a=1#b HTTP/1.1\r\nHost: [::1]:9344\r\n\r\n",
        b"OPTIONS * HTTP/1.0\r\n\r\n",
        _request("POST", "/offer", "2\r\n{}\r\n0\r\n\r\n", **{"Transfer-Encoding": "chunked"}),
        b"GET /offer HTTP/1.1\nHost: a\n folded: b\n\n",
    ]


def _printed(name: str, folder: Path) -> list[bytes]:
    """Recorded output of a command of each release."""
    recorded = sorted((TOP / "tests/assets/slurm").glob(f"*/{name}"))
    return [path.read_bytes() for path in recorded]


_WORDS = {
    name: [word.replace("MARK", MARK).encode() for word in words]
    for name, words in tomllib.loads((_HERE / "words.toml").read_text()).items()
}
_NAMES = [name.lower().encode() for name in SACCT_FIELDS]
_JSON = [*map(str.encode, FIELDS), *rb'NaN Infinity 1e999 "" \ud800 [[[['.split()]

TARGETS = {
    "swf": Fuzzed(_always(read_swf), lambda _: _case("swf"), [b"; MaxProcs: 4"], 400_000),
    "sacct": Fuzzed(_always(read_sacct), _sacct, [b"|", *_NAMES], 100_000, "sacct"),
    "pbs": Fuzzed(
        _always(read_pbs),
        lambda _: _case("pbs", "torque"),
        [b"exec_host=", b";S;", b"ctime="],
        100_000,
    ),
    "any log": Fuzzed(_always(read_any), _any, [b"PAR1"], 30_000),
    "conversion": Fuzzed(_always(convert_log), _logs, [b"|"], 2_000),
    "data set": Fuzzed(_always(convert_log), _data_sets, _WORDS["columns"], 4_000),
    "parquet": Fuzzed(_always(read_parquet), _parquet, [b"PAR1"], 20_000),
    "configuration": Fuzzed(
        _always(service_targets.configure), _configuration, _WORDS["toml"], 30_000, "configuration"
    ),
    "model": Fuzzed(_always(service_targets.load_model), _models, [], 20_000, "model"),
    "offer": Fuzzed(service_targets.offer_target, _offers, [*_WORDS["http"], *_JSON], 150_000),
    "offer body": Fuzzed(service_targets.offer_body_target, _bodies, _JSON, 150_000),
    "heads": Fuzzed(service_targets.heads_target, _heads, _WORDS["http"], 50_000, "heads"),
    "slurm.conf": Fuzzed(
        _always(read_conf),
        lambda _: [CONF.encode(), (_HERE / "sound_slurm.conf").read_bytes()],
        _WORDS["slurm.conf"],
        50_000,
        "slurm.conf",
    ),
    "squeue": Fuzzed(
        _always(read_queue),
        partial(_printed, "*squeue.txt"),
        _WORDS["squeue"],
        50_000,
        "squeue",
    ),
    "sprio": Fuzzed(
        _always(read_priorities), partial(_printed, "sprio.txt"), _WORDS["squeue"], 50_000
    ),
    "metrics": Fuzzed(service_targets.metrics_target, _scrapes, _WORDS["http"], 50_000),
}


def quiet() -> None:
    """Silences refusals; raises bugs."""
    logging.getLogger("slurm_rl_plugin").setLevel(logging.CRITICAL)
    for name in ("brokers.live.offer_pages", "metrics.pages"):
        logger = logging.getLogger(f"slurm_rl_plugin.{name}")
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        logger.handlers = [RaisesBroken()]
