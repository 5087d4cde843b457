"""The page: everything in one file, no network, light or dark as the reader's system is."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from dwell.report import chart, words
from dwell.report.curve import Curve, Point, curve_of, finer
from dwell.report.figures import KINDS
from dwell.report.svg import day

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dwell.report.figures import Figures


def page(figures: Figures, *, title: str, source: str, asked: Curve | None = None) -> str:
    """The HTML. `asked`: a curve that knows what lies beyond the chosen timeout, as `dwell curve` makes it."""
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    script = files(__package__).joinpath("page.js").read_text(encoding="utf-8")
    curve = curve_of(figures) if asked is None else finer(asked, figures)
    chosen_ms = figures.delays[0][0] if figures.delays else None
    sections = [
        _section(
            f"{words.share(figures.counts['expired'], figures.settled)} ran out of time",
            f"Operations by when they were submitted, {words.duration(figures.bin_ms)} a bar (UTC).",
            chart.outcomes_over_time(figures),
            _legend(figures),
        ),
        _section(
            f"Half of the completed waited {words.duration(figures.waits.percentile(0.5))} or less",
            "How long completed operations waited; the axis is logarithmic.",
            chart.waits(figures),
            _percentile_table(figures),
        ),
        _section(*_curve_words(curve, chosen_ms), chart.timeout_curve(curve.points, chosen_ms), _alive_table(curve)),
        _section(
            _group_title(figures),
            f"Expired operations by {figures.group_by}, and their share of all of that {figures.group_by}.",
            chart.groups_that_expire(figures),
        ),
        _section(
            f"About {words.count(max(figures.pending, default=0))} waited at the busiest",
            f"Operations waiting, every {words.duration(figures.bin_ms)}.",
            chart.pending_over_time(figures),
        ),
        _reasons(figures),
    ]
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n<header><h1>{escape(title)}</h1>\n"
        f"<p>{escape(_span(figures))} · {escape(source)}</p></header>\n{_tiles(figures)}\n{_identity(figures)}\n"
        f'<main>\n{"".join(sections)}</main>\n<div id="tip" hidden></div>\n'
        f"<script>\n{script}</script>\n</body>\n</html>\n"
    )


def five_figures(figures: Figures) -> list[tuple[str, str]]:
    """The five that matter, as (value, what it is)."""
    return [
        (words.count(figures.operations), "operations"),
        (words.share(figures.counts["completed"], figures.settled), "completed in time"),
        (words.share(figures.counts["expired"], figures.settled), "expired"),
        (words.duration(figures.waits.percentile(0.5)), "median wait"),
        (words.duration(figures.waits.percentile(0.99)), "99 % waited at most"),
    ]


def _tiles(figures: Figures) -> str:
    tiles = (f"<div><b>{escape(value)}</b><span>{escape(what)}</span></div>" for value, what in five_figures(figures))
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _identity(figures: Figures) -> str:
    parts = " + ".join(f"{words.count(figures.counts[kind])} {kind}" for kind in KINDS)
    return f'<p class="identity">{words.count(figures.operations)} operations = {parts}</p>'


def _span(figures: Figures) -> str:
    end_ms = figures.start_ms + len(figures.pending) * figures.bin_ms
    days = dict.fromkeys((day(figures.start_ms), day(end_ms)))
    return f"{' to '.join(days)}, {words.duration(end_ms - figures.start_ms)}"


def _section(title: str, caption: str, picture: str, below: str = "") -> str:
    if not picture:
        return ""
    return f"<section><h2>{escape(title)}</h2><p>{escape(caption)}</p>{picture}{below}</section>\n"


def _legend(figures: Figures) -> str:
    shown = (kind for kind in KINDS if figures.counts[kind])
    return '<p class="legend">' + "".join(f'<span><i class="{kind}"></i>{kind}</span>' for kind in shown) + "</p>"


def _percentile_table(figures: Figures) -> str:
    shares = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1)
    heads = "".join(f"<th>{'longest' if share == 1 else f'p{100 * share:g}'}</th>" for share in shares)
    cells = "".join(f"<td>{words.duration(figures.waits.percentile(share))}</td>" for share in shares)
    return f"<table><tr>{heads}</tr><tr>{cells}</tr></table>"


def _curve_words(curve: Curve, chosen_ms: int | None) -> tuple[str, str]:
    caption = "The share of operations each timeout would have expired; the axis is logarithmic."
    if curve.points and chosen_ms is not None and curve.points[-1].delay_ms <= chosen_ms:
        caption += " Outcomes do not tell what a longer timeout would have saved; dwell curve does."
    reached = [(alive, delay_ms) for alive, delay_ms in curve.shortest.items() if delay_ms is not None]
    if not reached:
        return "What other timeouts would have done", caption
    alive, delay_ms = max(reached)
    return f"{words.duration(delay_ms)} would keep {100 * alive:g} % alive", caption


def _alive_table(curve: Curve) -> str:
    heads = "".join(f"<th>{100 * alive:g} % alive</th>" for alive in curve.shortest)
    cells = "".join(f"<td>{'none' if ms is None else words.duration(ms)}</td>" for ms in curve.shortest.values())
    return f"<table><tr><th>to keep</th>{heads}</tr><tr><td>timeout</td>{cells}</tr></table>"


def _group_title(figures: Figures) -> str:
    return f"{figures.groups[0][0]} expires most" if figures.groups else ""


def _reasons(figures: Figures) -> str:
    if not figures.reasons:
        return ""
    rows = "".join(f"<tr><td>{escape(text)}</td><td>{words.count(count)}</td></tr>" for text, count in figures.reasons)
    title = f"{words.count(figures.counts['rejected'])} were rejected"
    return f'<section><h2>{title}</h2><p>Why, and how many.</p><table class="reasons">{rows}</table></section>\n'


def curve_picture(points: Sequence[tuple[int, float]], chosen_ms: int | None) -> str:
    """The timeout curve by itself, as an SVG file."""
    drawn = chart.timeout_curve([Point(*point) for point in points], chosen_ms)
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    head, _, rest = drawn.partition(">")
    back = '<rect width="100%" height="100%" fill="var(--card)"/>'
    return f'{head} xmlns="http://www.w3.org/2000/svg">\n<style>\n{style}</style>{back}{rest}\n'
