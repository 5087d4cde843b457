"""Kafka's own Java classes, on the same work as dwell in the same run. Needs a JDK 17 or newer and Maven."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
# Kafka's jars and the compiled programs are kept between runs.
CACHE = Path(tempfile.gettempdir()) / "dwell-bench-kafka"


def figures(program: str, *arguments: str) -> dict[str, float] | None:
    """What the Java program prints, as a dictionary; None where there is no JDK or no Maven, or it does not run."""
    if not all(shutil.which(tool) for tool in ("java", "javac", "mvn")):
        return None
    jars = CACHE / "jars"
    try:
        if not jars.exists():
            command = ["mvn", "-q", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
            subprocess.run([*command, f"-DoutputDirectory={jars}"], check=True, capture_output=True)
        subprocess.run(
            ["javac", "-cp", f"{jars}/*", "-d", str(CACHE / "classes"), str(HERE / f"{program}.java")],
            check=True,
            capture_output=True,
        )
        command = ["java", "-Xms2g", "-Xmx2g", "-cp", f"{CACHE / 'classes'}:{jars}/*", program, *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"Kafka's classes do not run here: {error}")
        return None
    found: dict[str, float] = json.loads(done.stdout)
    return found
