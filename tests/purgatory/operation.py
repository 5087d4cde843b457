"""Operations that tests watch, made for whichever build is under test."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dwell.purgatory.reference as Build

    class Probe(Build.DelayedOperation):
        """Completes once `ready` is set. `log` has what was called, in order."""

        ready: bool
        tries: int
        log: list[str]
        then: Callable[[], object] | None

        def __init__(self, delay_ms: int = 1000, lock: Any = None, then: Callable[[], object] | None = None) -> None: ...
else:
    Build = Any


@cache
def probe_class(build: Build) -> type[Probe]:
    class Probe(build.DelayedOperation):
        def __init__(self, delay_ms=1000, lock=None, then=None):
            super().__init__(delay_ms, lock)
            self.ready = False
            self.tries = 0
            self.log = []
            self.then = then

        def try_complete(self):
            self.tries += 1
            return self.ready and self.force_complete()

        def on_complete(self):
            self.log.append("complete")
            if self.then is not None:
                self.then()

        def on_expiration(self):
            self.log.append("expire")

    return Probe  # type: ignore[return-value]
