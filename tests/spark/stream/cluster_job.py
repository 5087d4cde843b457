"""`python -m tests.spark.stream.cluster_job ROOT`: `job.py`, into Parquet only, on two executors that get dwell as a
zip file."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import dwell
from tests.spark.stream.job import session, start

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa


def where_dwell_is(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    import dwell

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"path": [f"{dwell.__file__} in {os.getpid()}"]})


if __name__ == "__main__":
    root = Path(sys.argv[1])
    package = Path(dwell.__file__).parent
    packed = shutil.make_archive(str(root / "dwell"), "zip", package.parent, package.name)
    # Executors shall not find dwell by way of our own path.
    apart = {"spark.executorEnv.PYTHONPATH": "", "spark.executorEnv.DWELL_REFERENCE": "1"}
    spark = session("local-cluster[2,1,1024]", {"spark.submit.pyFiles": packed, **apart})
    for row in spark.range(0, 2, 1, 2).mapInArrow(where_dwell_is, "path string").collect():
        print("executor has", row.path, flush=True)
    start(spark, root, "parquet").awaitTermination()
    spark.stop()
