"""Which types a column that passes through may have over a checkpoint."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from dwell.errors import InvalidType
from dwell.spark.stream.passing import column_types, field_names, nullable
from dwell.spark.stream.table import fitted
from tests.spark.stream.shards import OPS

NAME, NOTE = field_names(["Name", "note"])


def schema(**columns: pa.DataType) -> pa.Schema:
    fields = {NOTE if name == "note" else NAME: kind for name, kind in columns.items()}
    return pa.schema([*OPS, pa.field("extra", pa.struct(list(fields.items())))])


def test_columns_of_the_same_name_or_of_another_case_are_told_apart() -> None:
    assert len(set(field_names(["a", "A", "a", "ä", "a_1", ""]))) == 6


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pa.int8(), pa.int64()),
        (pa.int32(), pa.int32()),
        (pa.float32(), pa.float64()),
        (pa.null(), pa.string()),
        (pa.timestamp("us", tz="UTC"), pa.timestamp("us", tz="Asia/Tokyo")),
        (pa.list_(pa.timestamp("us", tz="UTC")), pa.list_(pa.timestamp("us", tz="Asia/Tokyo"))),
        (pa.string(), pa.large_string()),
    ],
)
def test_a_type_that_holds_all_old_values_is_taken(before: pa.DataType, after: pa.DataType) -> None:
    known = column_types({}, schema(note=before))
    assert column_types(known, schema(note=after)) == column_types({}, schema(note=after))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (pa.string(), pa.int64(), "'note' of type bigint, but in the checkpoint it is of type string"),
        # Though some values would fit.
        (pa.int64(), pa.int32(), "'note' of type int, but in the checkpoint it is of type bigint"),
        (pa.int64(), pa.string(), "'note' of type string, but in the checkpoint it is of type bigint"),
        (pa.int64(), pa.float64(), "'note' of type double"),
        (pa.string(), pa.null(), "'note' of type void"),
        (pa.timestamp("us"), pa.timestamp("us", tz="UTC"), "of type timestamp, .* of type timestamp_ntz"),
        (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8())]), "of type struct<b:tinyint>, "),
    ],
)
def test_any_other_type_is_refused_with_both_types_named(before: pa.DataType, after: pa.DataType, said: str) -> None:
    known = column_types({}, schema(Name=pa.string(), note=before))
    with pytest.raises(InvalidType, match=said):
        column_types(known, schema(note=after))


def test_a_column_that_has_gone_is_still_known_when_it_comes_back() -> None:
    known = column_types(column_types({}, schema(note=pa.string())), OPS)
    with pytest.raises(InvalidType, match="'note' of type bigint"):
        column_types(known, schema(note=pa.int64()))


def test_null_is_allowed_everywhere() -> None:
    item = T.StructType([T.StructField("x", T.IntegerType(), False, {"nullable": False})])
    inner = T.MapType(T.StringType(), T.ArrayType(item, False), False)
    kept = nullable(T.StructType([T.StructField("extra", T.StructType([T.StructField("a", inner, False)]), False)]))
    item = T.StructType([T.StructField("x", T.IntegerType(), True, {"nullable": False})])
    inner = T.MapType(T.StringType(), T.ArrayType(item))
    assert kept == T.StructType([T.StructField("extra", T.StructType([T.StructField("a", inner)]))])


def test_rows_fit_other_columns_by_name() -> None:
    extra = {NOTE: "n", NAME: "m"}
    rows = pa.RecordBatch.from_pylist([{"op_id": "a", "extra": extra}], schema(note=pa.string(), Name=pa.string()))
    (bare,) = fitted(rows, OPS).to_pylist()
    assert "extra" not in bare
    (again,) = fitted(fitted(rows, OPS), schema(note=pa.string())).to_pylist()
    assert (again["op_id"], again["extra"]) == ("a", None)
    (other,) = fitted(rows, schema(Name=pa.string())).to_pylist()
    assert other["extra"] == {NAME: "m"}
