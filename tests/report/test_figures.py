from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from dwell.errors import InvalidArgument
from dwell.report.curve import curve_of
from dwell.report.figures import figures
from dwell.report.outcome_file import open_outcomes
from dwell.report.wait_histogram import WaitHistogram, ends, place_of, rank

if TYPE_CHECKING:
    from pathlib import Path


def test_counts_percentiles_and_reasons(settled: Path) -> None:
    found = figures(open_outcomes(str(settled)))
    assert found.counts == {"completed": 900, "expired": 98, "rejected": 2, "pending": 0}
    assert [found.waits.percentile(share) for share in (0.5, 0.9, 0.99, 1)] == [450, 810, 891, 900]
    assert found.delays == [(1000, 998)]
    assert found.reasons == [("delay_ms is negative", 2)]


def test_operations_stand_in_the_bin_of_their_submission(settled: Path) -> None:
    found = figures(open_outcomes(str(settled)))
    assert found.bin_ms == 300_000
    assert found.over_time["completed"][:3] == [5, 5, 5]
    assert sum(map(sum, found.over_time.values())) == 1000
    # Each waits a second at most, of a minute: nobody waits when a bin ends.
    assert set(found.pending) == {0}


def test_the_keys_that_expire_most_come_first_with_their_share(settled: Path) -> None:
    found = figures(open_outcomes(str(settled)))
    assert found.group_by == "key"
    assert found.groups == [("k0", 33, 33), ("k1", 33, 33), ("k2", 32, 32)]


def test_groups_by_another_column(settled: Path) -> None:
    found = figures(open_outcomes(str(settled)), by="delay_ms")
    assert found.groups == [("1000", 98, 998)]


def test_the_curve_from_outcomes_is_exact_up_to_the_delay(settled: Path) -> None:
    curve = curve_of(figures(open_outcomes(str(settled))))
    assert curve.points[-1].delay_ms == 1000
    assert curve.points[-1].expired == pytest.approx(98 / 998)
    assert all(point.expired == pytest.approx((998 - point.delay_ms) / 998) for point in curve.points[:-1])
    assert curve.shortest == {0.9: 899, 0.99: None, 0.999: None}


def test_outcomes_without_what_was_asked_will_do(settled: Path) -> None:
    from pyarrow import parquet

    whole = parquet.read_table(settled / "outcomes")
    parquet.write_table(whole.select(["op_id", "outcome", "finished_at", "waited_ms"]), settled / "bare.parquet")
    found = figures(open_outcomes(str(settled / "bare.parquet")))
    assert found.counts["completed"] == 900
    assert found.delays == [(1000, 98)]
    assert found.groups == []


def test_what_holds_no_outcomes_is_said(settled: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="does not exist"):
        open_outcomes(str(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgument, match="holds no Parquet files"):
        open_outcomes(str(tmp_path / "empty"))
    (settled / "outcomes" / "part-1.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InvalidArgument, match="no whole Parquet file"):
        figures(open_outcomes(str(settled)))


def test_every_value_lies_in_the_counter_that_counts_it() -> None:
    values = np.unique(np.concatenate([np.arange(20_000), *(2**i + np.array([-1, 0, 1]) for i in range(12, 62))]))
    places = place_of(values)
    assert (values < ends()[places]).all()
    assert (values[places > 0] >= ends()[places[places > 0] - 1]).all()
    # One part in eight thousand.
    wide = values >= 2**14
    assert ((ends()[places[wide]] - 1 - values[wide]) / values[wide] < 1 / 8000).all()
    assert (ends()[places[~wide]] - 1 == values[~wide]).all()


def test_a_percentile_is_never_longer_than_the_longest_wait() -> None:
    waits = WaitHistogram()
    waits.add(np.array([1_800_000 - 7, 1_800_000]))
    assert [waits.percentile(share) for share in (0.5, 0.999, 1)] == [1_800_000] * 3


@pytest.mark.parametrize(("share", "total", "found"), [(0.07, 100, 7), (0.999, 1000, 999), (0.5, 3, 2), (0.001, 5, 1)])
def test_a_share_is_taken_as_it_is_written(share: float, total: int, found: int) -> None:
    assert rank(share, total) == found


def test_no_waits_have_no_percentile() -> None:
    assert WaitHistogram().percentile(0.5) == 0
