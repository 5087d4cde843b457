"""The same outcomes on Spark, for tables and streams; needs the extra `dwell[spark]`."""

from __future__ import annotations

from dwell.errors import MissingExtra

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise MissingExtra("dwell.spark needs PySpark: pip install 'dwell[spark]'") from error

from dwell.spark.options import SettleOptions
from dwell.spark.schema import EVENTS, OPERATIONS, OUTCOMES
from dwell.spark.settle import settle

__all__ = ["EVENTS", "OPERATIONS", "OUTCOMES", "SettleOptions", "settle"]
