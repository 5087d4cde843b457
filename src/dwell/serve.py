"""Let another terminal watch: the statistics of purgatories and ledgers, served read-only on the loopback interface.

    with dwell.serve_statistics(purgatory, ledger):
        ...                                          # meanwhile, elsewhere: dwell top

Off unless called. Each request takes a snapshot by `statistics()`, nothing is done between requests. The address is
noted in a file only the same user can read, so that `dwell top` finds it; the end of the block removes it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from dwell.errors import InvalidArgument, InvalidType

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer

HOST = "127.0.0.1"


class Source(Protocol):
    """A purgatory, a ledger, a timer: whatever has a name and tells about itself."""

    def statistics(self) -> Any: ...


def serve_statistics(*sources: Source, port: int = 0) -> StatisticsServer:
    """Serve until `close()`; `port=0` takes a free one. Costs one thread that sleeps until somebody asks."""
    if not sources:
        raise InvalidArgument("serve_statistics needs at least one purgatory or ledger")
    for source in sources:
        if not callable(getattr(source, "statistics", None)):
            raise InvalidType(f"serve_statistics takes what has statistics(), not {source!r}")
    return StatisticsServer(sources, port)


class StatisticsServer:
    """A running server; a context manager. `close()` may be called twice."""

    def __init__(self, sources: tuple[Source, ...], port: int) -> None:
        self._server = _listen(sources, port)
        self.port: int = self._server.server_address[1]
        self.url = f"http://{HOST}:{self.port}/"
        self._note = notes() / f"{os.getpid()}-{self.port}.json"
        self._note.write_text(json.dumps({"pid": os.getpid(), "url": self.url, "program": Path(sys.argv[0]).name}))
        self._thread = threading.Thread(target=self._server.serve_forever, name="dwell-statistics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._note.unlink(missing_ok=True)
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def notes() -> Path:
    """Where running servers are noted; only their user may look."""
    root = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"dwell-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    if root.stat().st_uid != os.getuid():
        raise InvalidArgument(f"{root} belongs to somebody else: set XDG_RUNTIME_DIR to a directory of your own")
    return root


def snapshot(sources: tuple[Source, ...]) -> dict[str, Any]:
    """What a request gets: the moment, and the statistics of each source and of its timer."""
    return {"at_s": time.time(), "pid": os.getpid(), "sources": [_describe(source) for source in sources]}


def _describe(source: Source) -> dict[str, Any]:
    described = {
        "kind": type(source).__name__,
        "name": str(getattr(source, "name", type(source).__name__)),
        "statistics": _plain(source.statistics()),
    }
    timer: Any = getattr(source, "timer", None)
    if callable(getattr(timer, "statistics", None)):
        described["timer"] = _plain(timer.statistics())
    return described


def _plain(statistics: Any) -> Any:
    return asdict(statistics) if is_dataclass(statistics) and not isinstance(statistics, type) else statistics


def _listen(sources: tuple[Source, ...], port: int) -> ThreadingHTTPServer:
    # Here and not above: `import dwell` shall not pay for a web server nobody asked for.
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A page in a browser can send requests here too, under a name of its own choice: only ours is answered.
            host = (self.headers.get("Host") or "").partition(":")[0]
            if host not in (HOST, "localhost"):
                self.send_error(403)
                return
            body = json.dumps(snapshot(sources)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    try:
        server = ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        raise InvalidArgument(f"port {port} cannot be had ({error.strerror}): pass port=0 for a free one") from error
    server.daemon_threads = True
    return server
