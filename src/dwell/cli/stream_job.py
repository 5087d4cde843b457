"""soon"""

from typing import Any


def settle_stream(*a: Any) -> Any: ...
