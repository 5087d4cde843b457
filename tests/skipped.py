"""The last line of a run: what was skipped, and why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, Any, Any]:
    result = yield  # pytest's own closing line comes first
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not session.config.option.collectonly:
        reporter.write_line(said(reporter.stats.get("skipped", [])))
    return result


def said(reports: list[Any]) -> str:
    reasons = Counter(_reason(report) for report in reports)
    if not reasons:
        return "skipped: nothing"
    return "skipped: " + "; ".join(f"{count} because: {reason}" for reason, count in reasons.most_common())


def _reason(report: Any) -> str:
    # (file, line, "Skipped: the reason")
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(text).removeprefix("Skipped: ")
