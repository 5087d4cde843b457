"""Operations that tests watch, made for whichever build is under test."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tests.builds import Build


@cache
def probe_class(build: Build) -> Any:
    class Probe(build.DelayedOperation):  # type: ignore[name-defined,misc]
        """Completes once `ready` is set. `log` has what was called, in order."""

        def __init__(self, delay_ms: int = 1000, lock: Any = None, then: Callable[[], object] | None = None) -> None:
            super().__init__(delay_ms, lock)
            self.ready = False
            self.tries = 0
            self.log: list[str] = []
            self.then = then

        def try_complete(self) -> bool:
            self.tries += 1
            return self.ready and self.force_complete()

        def on_complete(self) -> None:
            self.log.append("complete")
            if self.then is not None:
                self.then()

        def on_expiration(self) -> None:
            self.log.append("expire")

    return Probe
