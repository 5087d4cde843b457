"""What can go wrong, as types, and where the exceptions of user code go.

DwellError
├── InvalidArgument (ValueError)     a value dwell cannot use; the message names the field and the value
├── InvalidType     (TypeError)      a value of a kind dwell cannot use
├── Closed          (RuntimeError)   a call on a timer, purgatory or ledger that was closed
├── Full            (RuntimeError)   a ledger holds as many open waits as it may
└── MissingExtra    (ImportError)    an optional part is not installed; the message says what to install
"""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger("dwell")

ErrorHandler = Callable[[BaseException, object], None]
"""Called with the exception a user's callback raised and the task or operation it belongs to."""


class DwellError(Exception):
    """Base of everything dwell raises on purpose."""


class InvalidArgument(DwellError, ValueError):
    pass


class InvalidType(DwellError, TypeError):
    pass


class Closed(DwellError, RuntimeError):
    pass


class Full(DwellError, RuntimeError):
    pass


class MissingExtra(DwellError, ImportError):
    pass


def log_error(error: BaseException, source: object) -> None:
    """The default handler: log with traceback, harm nobody else."""
    logger.error("%r raised %s", source, type(error).__name__, exc_info=error)


def report(handler: ErrorHandler, error: BaseException, source: object) -> None:
    """Tell `handler` that `source` raised `error`. A handler that raises itself is survived, and both are logged."""
    try:
        handler(error, source)
    except Exception as second:
        log_error(error, source)
        log_error(second, handler)
