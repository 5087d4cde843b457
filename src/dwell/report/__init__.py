"""Figures and pictures of outcomes, as one HTML page that needs no network; needs the extra `dwell[spark]` (PyArrow).

`outcome_file.py` finds the rows, `figures.py` sums them up in one walk, `svg.py` and `chart.py` draw, `page.py` makes the page.
"""

from __future__ import annotations

from dwell.errors import MissingExtra

try:
    import pyarrow  # noqa: F401
except ImportError as error:
    raise MissingExtra("dwell.report needs PyArrow: pip install 'dwell[spark]'") from error
