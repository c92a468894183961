"""Rows that polars cuts and reads hold what the cutter of lines and `fields` say of each."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.accounting.sacct.batches import RecordCutter, RecordsOfLines, counts, times
from slurm_rl_plugin.accounting.sacct.fields import Layout, parse_count, parse_time
from tests.unit.accounting.test_conversion import NAMES, PIECES, VALUES

LAYOUT = Layout(tuple(name.lower() for name in NAMES), trailing=False, header="|".join(NAMES))


@settings(deadline=None, max_examples=60)
@given(pieces=st.lists(PIECES, max_size=20))
def test_rows_are_cut_as_their_lines_are(pieces):
    text = "\n".join(pieces).replace("\r\n", "\n")
    singly = list(RecordsOfLines(LAYOUT).cut(text.split("\n")))
    batch = RecordCutter(LAYOUT).cut(text.encode(), last=True)
    told = dict(zip(batch.places.tolist(), map(list, batch.fields.rows()), strict=True))
    told |= batch.lost
    assert [told[place] for place in sorted(told)] == singly


@pytest.mark.parametrize(
    ("of_a_batch", "of_one", "names"),
    [
        (times, parse_time, ["Submit", "Eligible", "Start", "End"]),
        (counts, parse_count, ["ElapsedRaw", "TimelimitRaw", "NCPUS"]),
    ],
)
def test_values_of_a_batch_are_those_of_each(of_a_batch, of_one, names):
    texts = [value for name in names for value in VALUES[name]]
    found = of_a_batch(pl.Series(texts))
    np.testing.assert_array_equal(found, [of_one(text) for text in texts])
