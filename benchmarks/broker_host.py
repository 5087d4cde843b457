"""A server in a process of its own: our cluster, or a plain asyncio server that echoes frames.

It says where it listens in one line of JSON, then answers every line it reads with its CPU seconds and its memory.
"""

from __future__ import annotations

import asyncio
import json
import resource
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

# What an answered produce and a fetch of one record of 1 kB weigh: the echo answers in the same sizes.
ROOT = Path(__file__).parent.parent


class Echo(asyncio.Protocol):
    """Reads frames as a broker does and answers each with `answer`: the least an asyncio server can do."""

    def __init__(self, answer: bytes) -> None:
        self._frame = struct.pack(">i", len(answer)) + answer
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        while len(buffer) >= 4:
            end = 4 + int.from_bytes(buffer[:4], "big")
            if len(buffer) < end:
                return
            del buffer[:end]
            self._transport.write(self._frame)


async def _echo(answer: bytes) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Echo(answer), "127.0.0.1", 0)
    _say({"addresses": ["{}:{}".format(*server.sockets[0].getsockname())]})
    threading.Thread(target=_answer_lines, daemon=True).start()
    await server.serve_forever()


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def memory_kib() -> int:
    """What the process holds in memory now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _answer_lines() -> None:
    for _ in sys.stdin:
        _say({"cpu_s": time.process_time(), "memory_kib": memory_kib()})


def main() -> None:
    options = json.loads(sys.argv[1])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
    if "echo" in options:
        asyncio.run(_echo(bytes(options["echo"])))
        return
    from dwell.broker import Cluster

    lags = options.pop("lags", {})
    with Cluster(**options) as cluster:
        for broker, ms in lags.items():
            cluster.broker(int(broker)).lag(ms)
        _say({"addresses": [broker.address for broker in cluster.brokers]})
        _answer_lines()


class Host:
    """The parent's side: starts the process, asks it, ends it."""

    def __init__(self, **options: Any) -> None:
        command = [sys.executable, "-m", "benchmarks.broker_host", json.dumps(options)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server of the benchmark did not start: {options}")
        self.addresses: list[str] = json.loads(line)["addresses"]
        self.bootstrap_servers = ",".join(self.addresses)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def usage(self) -> dict[str, float]:
        """CPU seconds so far, and KiB in memory."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        usage: dict[str, float] = json.loads(self._process.stdout.readline())
        return usage


if __name__ == "__main__":
    main()
