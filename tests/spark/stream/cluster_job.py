"""`python -m tests.spark.stream.cluster_job ROOT`: `job.py` on two executors that get dwell as a zip file."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

import dwell
from tests.spark.stream.job import main

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
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.submit.pyFiles", packed)
    # Executors shall not find dwell by way of our own path.
    builder = builder.config("spark.executorEnv.PYTHONPATH", "").config("spark.executorEnv.DWELL_REFERENCE", "1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = builder.getOrCreate()
    for row in spark.range(0, 2, 1, 2).mapInArrow(where_dwell_is, "path string").collect():
        print("executor has", row.path, flush=True)
    main(root, "parquet", "local-cluster[2,1,1024]")
