"""What a run came to: the counts, the ledger identity, the waits; as JSON for programs and as words for people."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from dwell.report import words


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """`operations` is counted in the input, exact repeats once; the four kinds are counted in what was written."""

    engine: str
    out: str
    operations: int
    repeats: int
    completed: int
    expired: int
    rejected: int
    pending: int
    seconds: float
    events: int | None = None  # None: not counted, a stream
    events_set_aside: int = 0
    unchecked: str | None = None  # why the operations could not be counted at their source; None: they were
    waited_ms: dict[str, int] = field(default_factory=dict)  # "p50" -> ms, of the completed
    as_of: str | None = None

    @property
    def identity_holds(self) -> bool:
        return self.operations == self.completed + self.expired + self.rejected + self.pending

    def as_json(self) -> str:
        return json.dumps({**asdict(self), "identity_holds": self.identity_holds}, indent=2, ensure_ascii=False) + "\n"

    def tell(self) -> int:
        """Say it on standard output, the identity last. Returns the exit code."""
        n = words.count
        settled = self.completed + self.expired
        print(f"outcomes   {self.out}/outcomes")
        if self.rejected:
            print(f"rejected   {n(self.rejected)}, with reasons: {self.out}/rejected")
        if self.events is not None:
            aside = f", {n(self.events_set_aside)} set aside" if self.events_set_aside else ""
            print(f"events     {n(self.events)}{aside}")
        if self.repeats:
            print(f"repeats    {n(self.repeats)} rows said again what was known")
        print(f"completed  {words.share(self.completed, settled)} of the settled")
        print(f"expired    {words.share(self.expired, settled)}")
        if self.waited_ms:
            said = " · ".join(f"{name} {words.duration(ms)}" for name, ms in self.waited_ms.items())
            print(f"waits      {said}")
        # A stream waits most of its time: a rate would say nothing.
        is_stream = self.events is None
        rate = (
            "" if is_stream or not self.seconds else f", {n(round(self.operations / self.seconds))} operations a second"
        )
        print(f"took       {words.duration(1000 * self.seconds)}{rate}")
        print(self.identity())
        return 0 if self.identity_holds else 1

    def identity(self) -> str:
        n = words.count
        counts = (
            f"{n(self.operations)} operations in, {n(self.completed)} completed + {n(self.expired)} expired + "
            f"{n(self.rejected)} rejected + {n(self.pending)} pending"
        )
        if self.unchecked is not None:
            return f"ledger identity not checked, {self.unchecked}: {counts}"
        return f"ledger identity holds: {counts}" if self.identity_holds else f"LEDGER IDENTITY BROKEN: {counts}"
