"""What tests of code that uses dwell need: a clock that stands still, a timer that one call moves, no threads."""

TYPE_CHECKING = False  # see `dwell/__init__.py`
if TYPE_CHECKING:
    from dwell.clock import ManualClock
    from dwell.testing.manual_timer import ManualTimer
    from dwell.timer import InlineExecutor

__all__ = ["InlineExecutor", "ManualClock", "ManualTimer"]

# Loaded when first used, so that the pytest plugin costs nothing in projects whose tests do not use it.
_HOME_OF = {
    "InlineExecutor": "dwell.timer",
    "ManualClock": "dwell.clock",
    "ManualTimer": "dwell.testing.manual_timer",
}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'dwell.testing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
