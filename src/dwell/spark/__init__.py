"""The same outcomes on Spark, for tables and streams; needs the extra `dwell[spark]`.

settle          one outcome for each operation
follows         did B happen within T after A? two frames as they are
curve           what other timeouts would have done; shortest_delay: the least that keeps a share alive
identity        operations in = completed + expired + rejected + pending
set_aside       the events nobody looked at, and why
pending         what a stream still waits for, from its checkpoint
Figures         of each micro-batch of a stream; print_figures, export_figures and FiguresListener hand them on
"""

from __future__ import annotations

from dwell.errors import MissingExtra

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise MissingExtra("dwell.spark needs PySpark: pip install 'dwell[spark]'") from error

from dwell.spark.account import identity, set_aside
from dwell.spark.curve import curve, shortest_delay
from dwell.spark.follows import follows
from dwell.spark.options import SettleOptions
from dwell.spark.schema import EVENTS, OPERATIONS, OUTCOMES
from dwell.spark.settle import settle
from dwell.spark.stream.listener import Figures, FiguresListener, export_figures, print_figures
from dwell.spark.stream.pending import pending

__all__ = [
    "EVENTS",
    "OPERATIONS",
    "OUTCOMES",
    "Figures",
    "FiguresListener",
    "SettleOptions",
    "curve",
    "export_figures",
    "follows",
    "identity",
    "pending",
    "print_figures",
    "set_aside",
    "settle",
    "shortest_delay",
]
