"""What is wrong with a published file is one sentence: the file, the line or row, the field."""

from __future__ import annotations

import re

import polars as pl
import pytest

from slurm_rl_plugin.accounting.conversion import convert
from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.errors import AccountingLogError
from tests.unit.accounting.published_samples import as_csv, as_parquet, f_data, pm100, pods


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


def test_a_quote_that_does_not_end_is_named(tmp_path):
    path = as_csv(pods(4), tmp_path / "pods.csv")
    path.write_text(path.read_text().replace("openb-pod-0002", '"openb-pod-0002'))
    refused(path, r"pods.csv:4: a quote does not end")


def test_a_quote_within_a_field_is_named(tmp_path):
    path = as_csv(pods(4), tmp_path / "pods.csv")
    path.write_text(path.read_text().replace("openb-pod-0002", '""openb""-pod-0002'))
    refused(path, r"pods.csv:4: a quote stands within a field")


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
