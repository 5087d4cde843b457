"""Where and how Spark runs: the command line, then what Spark was told elsewhere, then our own choice."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dwell.cli import session
from dwell.cli.problem import Problem
from dwell.cli.session import settings
from dwell.cli.spark_setting import told_beforehand

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


def arguments(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    session.add_arguments(parser)
    return argparse.Namespace(command="settle", **vars(parser.parse_args(argv)))


@pytest.mark.parametrize(
    ("argv", "told", "master"),
    [
        ([], {}, "local[*]"),
        ([], {"spark.master": "yarn"}, "yarn"),
        (["--conf", "spark.master=spark://h:7077"], {"spark.master": "yarn"}, "spark://h:7077"),
        (["--master", "local[2]"], {"spark.master": "yarn"}, "local[2]"),
        (["--master", "local[2]", "--conf", "spark.master=yarn"], {}, "local[2]"),
    ],
)
def test_local_is_chosen_only_if_nothing_says_otherwise(argv: list[str], told: dict[str, str], master: str) -> None:
    assert settings(arguments(*argv), told)["spark.master"] == master


def test_settings_given_elsewhere_stay() -> None:
    told = {"spark.driver.memory": "3g", "spark.ui.enabled": "true", "spark.sql.shuffle.partitions": "7"}
    told["spark.sql.streaming.stateStore.providerClass"] = "com.example.RocksDB"
    chosen = settings(arguments(), told, stream=True)
    assert not set(told) & set(chosen)
    # Times without a zone are UTC whatever the cluster's habits, unless the command line says otherwise.
    assert settings(arguments(), {"spark.sql.session.timeZone": "Asia/Tokyo"})["spark.sql.session.timeZone"] == "UTC"
    assert settings(arguments("--conf", "spark.ui.enabled=true"), {})["spark.ui.enabled"] == "true"


def test_a_cluster_gets_no_settings_of_a_single_machine() -> None:
    on_cluster = settings(arguments(), {"spark.master": "yarn"})
    assert set(on_cluster) == {
        "spark.app.name",
        "spark.ui.enabled",
        "spark.ui.showConsoleProgress",
        "spark.master",
    } | set(session.TIMES)


def test_the_environment_and_the_files_of_spark_are_read(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.master nowhere\n\nspark.master   spark://file:7077\nspark.eventLog.enabled=true\nspark.x: a b\n"
    )
    told = told_beforehand({"SPARK_CONF_DIR": str(tmp_path), "MASTER": "local[1]"})
    assert told == {"spark.master": "spark://file:7077", "spark.eventLog.enabled": "true", "spark.x": "a b"}
    argued = "--master yarn --conf spark.x=1=2 -c 'spark.y=a b' --driver-memory 3g --deploy-mode client pyspark-shell"
    told = told_beforehand({"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": argued})
    assert told["spark.master"] == "yarn"
    assert (told["spark.x"], told["spark.y"], told["spark.driver.memory"]) == ("1=2", "a b", "3g")
    assert told_beforehand({"SPARK_CONF_DIR": str(tmp_path / "nowhere")}) == {}


def test_memory_cannot_be_given_to_a_java_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(Problem, match="pass it to spark-submit"):
        settings(arguments("--driver-memory", "4g"), {})


@pytest.mark.spark
@pytest.mark.slow
def test_under_spark_submit_its_master_and_settings_count(shop: Shop, tmp_path: Path) -> None:
    import pyspark

    from dwell.spark.java import ensure_java

    ensure_java()
    (tmp_path / "main.py").write_text("import sys\nfrom dwell.cli import main\nsys.exit(main())\n")
    submit = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        "--master",
        "local[1]",
        "--driver-memory",
        "700m",
    ]
    argv = [*submit, str(tmp_path / "main.py"), "settle", str(shop.operations), str(shop.events)]
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    ran = subprocess.run(
        [*argv, "--out", str(tmp_path / "out")], env=env, capture_output=True, text=True, check=False, timeout=240
    )
    assert ran.returncode == 0, ran.stderr
    said = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert said["engine"].endswith(", local[1]")
