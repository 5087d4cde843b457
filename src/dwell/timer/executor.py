"""Where due tasks run: a thread of the timer's own, the thread that advances the clock, or the caller's executor."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar, final

P = ParamSpec("P")
R = TypeVar("R")


@final
class InlineExecutor(Executor):
    """Runs what it is given at once, in the caller's thread: with a manual clock, tests need no threads."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        future: Future[R] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@final
class Worker:
    """One daemon thread, started by the first batch. Takes a whole batch of due tasks at a time: one hand-over each."""

    def __init__(
        self, name: str, run: Callable[[list[Any]], None], report: Callable[[BaseException, object], None]
    ) -> None:
        self._run = run
        self._report = report
        self._batches: SimpleQueue[list[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._start = threading.Lock()

    def put(self, batch: list[Any]) -> None:
        self._batches.put(batch)
        if self._thread.ident is None:
            with self._start:
                if self._thread.ident is None:
                    self._thread.start()

    def close(self) -> None:
        """Let what was handed over finish, then end the thread. From inside a task: end after it, without waiting."""
        self._batches.put(None)
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _loop(self) -> None:
        while (batch := self._batches.get()) is not None:
            while batch:
                try:
                    self._run(batch)
                except BaseException as error:  # a task's SystemExit must not end the thread that others rely on
                    self._report(error, self)
