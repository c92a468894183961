"""Published data sets: what their columns mean, and what is wrong with a file in one sentence."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

from slurm_rl_plugin.accounting.conversion import convert
from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.errors import AccountingLogError
from tests.contracts.test_accounting_readers import told
from tests.unit.accounting.published_samples import (
    as_csv,
    as_parquet,
    f_data,
    pm100,
    pods,
)

SAMPLES = {"f-data": f_data(60), "pm100": pm100(60), "openb": pods(60)}
FORMS = {"csv": as_csv, "parquet": as_parquet}


@pytest.fixture(params=SAMPLES, ids=SAMPLES)
def kind(request):
    return request.param


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def path(request, kind, tmp_path):
    return request.param(SAMPLES[kind], tmp_path / "sample")


def read(frame, tmp_path, form=as_parquet):
    return read_log(form(frame, tmp_path / "sample"))


def test_csv_and_parquet_say_the_same(kind, tmp_path):
    logs = [read(SAMPLES[kind], tmp_path, form) for form in FORMS.values()]
    one_log, other = (told(log) for log, _ in logs)
    for name, column in one_log.items():
        np.testing.assert_array_equal(column, other[name], err_msg=name)
    assert logs[0][1].dropped == logs[1][1].dropped


@pytest.mark.parametrize("batch", [700, 1 << 20])
def test_what_is_converted_reads_as_the_file_itself(path, kind, batch, tmp_path):
    output = tmp_path / "log.parquet"
    report = convert([path], output, batch=batch, part=7)
    directly, converted = read_log(path), read_log(output)
    assert converted[1] == directly[1] == report
    assert (directly[0].kind, report.read) == (kind, 60)
    assert report.kept + sum(report.dropped.values()) == 60
    one_log, other = told(directly[0]), told(converted[0])
    for name, column in one_log.items():
        np.testing.assert_array_equal(column, other[name], err_msg=name)


def test_pm100_of_earlier_revisions_names_cores_cpus(tmp_path):
    sample = pm100(5)
    former = {
        "num_cores_req": "num_cpus_req",
        "num_cores_alloc": "num_cpus_alloc",
        "cores_per_task": "cpus_per_task",
    }
    now, before = read(sample, tmp_path)[0], read(sample.rename(former), tmp_path)[0]
    assert now.requests is not None
    assert before.requests is not None
    np.testing.assert_array_equal(now.processors, before.processors)
    np.testing.assert_array_equal(now.requests.total, before.requests.total)


def test_pods_that_were_never_scheduled_never_ran(tmp_path):
    sample = SAMPLES["openb"]
    _, report = read(sample, tmp_path, as_csv)
    assert report.dropped == {"never ran": sample["scheduled_time"].null_count()}
    assert report.dropped["never ran"] > 0


def test_months_of_f_data_go_together_and_lists_of_pods_do_not(tmp_path):
    months = [as_parquet(f_data(9, seed), tmp_path / f"21_0{seed}.parquet") for seed in (4, 5)]
    report = convert(months, tmp_path / "log.parquet")
    assert (report.read, report.kept) == (18, 18)
    lists = [as_csv(pods(9, seed), tmp_path / f"{seed}.csv") for seed in (1, 2)]
    with pytest.raises(AccountingLogError, match="count their seconds from a beginning"):
        convert(lists, tmp_path / "pods.parquet")
    with pytest.raises(AccountingLogError, match="a log of openb, the one before of f-data"):
        convert([months[0], lists[0]], tmp_path / "both.parquet")


def test_what_convert_wrote_is_not_converted_again(tmp_path):
    source = as_parquet(f_data(3), tmp_path / "month")
    convert([source], tmp_path / "log.parquet")
    with pytest.raises(AccountingLogError, match="what convert wrote is a LOG as it is"):
        convert([tmp_path / "log.parquet"], tmp_path / "again.parquet")


def refused(path, words):
    """Both ways of reading refuse it with the same words."""
    with pytest.raises(AccountingLogError) as direct:
        read_log(path)
    with pytest.raises(AccountingLogError) as converted:
        convert([path], path.with_suffix(".out.parquet"))
    assert str(converted.value) == str(direct.value)
    assert re.search(words, str(direct.value)), str(direct.value)


def with_value(frame, row, name, value):
    """A sample with a text in one place."""
    texts = frame[name].cast(pl.String)
    texts[row] = value
    return frame.with_columns(texts)


@pytest.mark.parametrize(
    ("frame", "field", "value"),
    [
        (f_data(5), "adt", "yesterday"),
        (f_data(5), "duration", "1h"),
        (pm100(5), "time_limit", "long"),
        (pm100(5), "submit_time", "2020-13-01 00:00:00"),
        (pods(5), "cpu_milli", "12 CPUs"),
        (pods(5), "memory_mib", "inf"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_that_is_none_is_named_with_its_place(frame, field, value, tmp_path):
    faulty = with_value(frame, 3, field, value)
    problem = f"field {field}: '{re.escape(value)}'"
    parquet = as_parquet(faulty, tmp_path / "sample")
    refused(parquet, f"sample: {problem} of row 4 is no (number|time).*; mend it")
    plain = faulty.select(name for name, kind in faulty.schema.items() if not kind.is_nested())
    refused(as_csv(plain, tmp_path / "s.csv"), f"s.csv:5: {problem} is no (number|time)")


def test_lines_count_those_within_quotes(tmp_path):
    faulty = with_value(f_data(5), 3, "elpl", "ever")
    path = as_csv(faulty, tmp_path / "month.csv")
    line = path.read_text().split("ever")[0].count("\n") + 1
    assert line > 5
    refused(path, rf"month.csv:{line - 0}: field elpl: 'ever' is no number")


@pytest.mark.parametrize(("frame", "field"), [(f_data(2), "sdt"), (pm100(2), "mem_req")])
def test_a_column_that_is_missing_is_named(frame, field, tmp_path):
    less = frame.drop(field)
    refused(as_parquet(less, tmp_path / "sample"), f"field {field}: .* the file lacks it")
    refused(as_csv(less, tmp_path / "s.csv"), f"s.csv:1: field {field}: .* the file lacks it")


def test_a_record_of_too_few_or_too_many_fields_is_named(tmp_path):
    path = as_csv(pods(4), tmp_path / "pods.csv")
    lines = path.read_text().splitlines()
    for line in (lines[2][: len(lines[2]) // 2], lines[2] + ",9"):
        path.write_text("\n".join([*lines[:2], line, *lines[3:]]) + "\n")
        refused(path, r"pods.csv:3: \d+ fields, and the header names 12; mend the record")


@pytest.mark.parametrize(
    ("name", "further"),
    [
        ('"openb-pod-0002', ""),  # a quote that does not end
        ('"openb-pod-0002', "x" * 200_000),
        ('""openb""-pod-0002', ""),
        ("openb\r-pod-0002", ""),
    ],
)
def test_a_quote_or_a_return_within_a_field_is_named(name, further, tmp_path):
    path = as_csv(pods(4), tmp_path / "pods.csv")
    text = path.read_text().replace("openb-pod-0002", name) + further
    path.write_text(text, newline="\n")
    refused(path, r"pods.csv:4: a quote or a carriage return is out of place")


def test_a_field_may_be_long(tmp_path):
    read = read_log(as_csv(pods(4), tmp_path / "pods.csv"))
    long = pods(4).with_columns(power=pl.lit("9," * 100_000))
    assert read_log(as_csv(long, tmp_path / "long.csv"))[1].kept == read[1].kept > 0


def test_a_file_without_records_is_refused(tmp_path):
    refused(as_csv(pods(4).head(0), tmp_path / "pods.csv"), "pods.csv: the file holds no record")
    empty = as_parquet(f_data(4).head(0), tmp_path / "month")
    refused(empty, "month: the file holds no record")


def test_a_column_of_another_type_is_refused(tmp_path):
    frame = f_data(2).with_columns(pl.Series("duration", [[1.0], [2.0]]))
    refused(as_parquet(frame, tmp_path / "month"), r"field duration: the column holds List")
    times = f_data(2).with_columns(pl.Series("adt", [1, 2]))
    refused(as_parquet(times, tmp_path / "times"), "field adt: 1 of row 1 is no time")


def test_a_file_that_is_cut_off_is_refused(tmp_path):
    path = as_parquet(pods(50), tmp_path / "pods")
    path.write_bytes(path.read_bytes()[:-100])
    refused_by_reading = pytest.raises(AccountingLogError, match="parquet file cannot be read")
    with refused_by_reading:
        read_log(path)
