"""Where due tasks run: a thread of the timer's own, the thread that turns the wheels, or the caller's executor."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar, final

from dwell.errors import ErrorHandler, report

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
class TaskThread:
    """One daemon thread, started when the first task is due. It takes all that is due at a time: one hand-over each.

    The thread takes the tasks itself, so it finds a task that the timer accepted even if the timer is closed before the
    thread that added the task has called `wake()`.
    """

    def __init__(
        self, name: str, take: Callable[[], list[Any]], run: Callable[[list[Any]], None], on_error: ErrorHandler
    ) -> None:
        self._take = take
        self._run = run
        self._on_error = on_error
        # True: there is work; False: end when there is none.
        self._calls: SimpleQueue[bool] = SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._start = threading.Lock()

    def wake(self) -> None:
        """Say that tasks are due."""
        self._calls.put(True)
        if self._thread.ident is None:
            with self._start:
                if self._thread.ident is None:
                    self._thread.start()

    def close(self) -> None:
        """Let all that it was woken for run, then end the thread. From inside a task: end after it, without waiting."""
        self._calls.put(False)
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _loop(self) -> None:
        while self._calls.get():
            while batch := self._take():
                while batch:
                    try:
                        self._run(batch)
                    except BaseException as error:  # a task's SystemExit must not end the thread that others rely on
                        report(self._on_error, error, self)
