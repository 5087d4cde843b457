"""What a piece of text says: a number, a time, the needs of an operation.

Text files are dirty, and both engines must make the same of the same dirt. Spark's `try_cast` decides what a text means
there; the functions here decide it for `--engine memory`, by the same rules. What cannot be read is None, never an
error. `tests/cli/test_same_dirt.py` compares the two on thousands of texts.
"""

from __future__ import annotations

import json
import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from dwell.ledger import Need

# Around a number or a time Spark drops whitespace and control characters, of ASCII only.
_AROUND = "".join(map(chr, [*range(0x21), 0x7F]))
_NUMBER = re.compile("[+-]?[0-9]+")
_LEAST, _MOST = -(2**63), 2**63 - 1

# A time of day without a date is no time: Spark would take the day on which it runs.
_TIME = re.compile(
    r"([+-]?[0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})"
    r"(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9].*)?)?)?)?)?)?",
    re.DOTALL,
)
# The same for Spark: what it must not cast.
TIME_OF_DAY = r"^[\x00-\x20\x7f]*([0-9]+:|T)"

_OFFSET = re.compile(r"([+-])([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_S = 86_400
# The calendar repeats itself every 400 years.
_CYCLE_DAYS = 146_097
# The second day and the last but one that Python knows.
_FIRST_S, _LAST_S = -62_135_510_400, 253_402_214_400

# Java's abbreviations of zones, which Spark takes.
_SHORT_ZONES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}

# The longest number Spark's JSON parser reads, in characters.
_LONGEST_NUMBER = 1000


def number(text: str | None) -> int | None:
    """A whole number of 64 bits."""
    found = None if text is None else _NUMBER.fullmatch(text.strip(_AROUND))
    if found is None or len(found[0]) > _LONGEST_NUMBER:
        return None
    value = int(found[0])
    return value if _LEAST <= value <= _MOST else None


def time_us(text: str | None) -> int | None:
    """A date, or a date and a time, as microseconds since 1970; UTC where it names no zone."""
    found = None if text is None else _TIME.fullmatch(text.strip(_AROUND))
    if found is None:
        return None
    year, month, day, hour, minute, second = (
        default if part is None else int(part)
        for part, default in zip(found.groups()[:6], (0, 1, 1, 0, 0, 0), strict=True)
    )
    if not (1 <= month <= 12 and 1 <= day <= _days_of(year, month) and hour < 24 and minute < 60 and second < 60):
        return None
    zone = UTC if found[8] is None else _zone(found[8].strip(_AROUND))
    if zone is None:
        return None
    local_s = _days_since_1970(year, month, day) * _DAY_S + hour * 3600 + minute * 60 + second
    micros = (local_s - _offset_s(zone, local_s)) * 1_000_000 + int((found[7] or "")[:6].ljust(6, "0"))
    return micros if _LEAST <= micros <= _MOST else None


def needs(text: str | None) -> list[Need] | None:
    """One key, or a JSON list: of keys, or of objects with `key` and, if it is a level that is waited for, `level`."""
    if text is None:
        return None
    if not text.lstrip(" ").startswith("["):
        return [Need(text)]
    parsed = _parsed(text.lstrip(" "))
    if not isinstance(parsed, list):
        return None
    found: list[Need] = []
    for one in parsed:
        if isinstance(one, str) and one.startswith("{"):
            one = _parsed(one)
            one = one if isinstance(one, dict) else None
        if not isinstance(one, dict):
            found.append(Need(_text(one)))
            continue
        said = _text(one.get("level"))
        level = number(said)
        if said is not None and level is None:
            return None  # without its level the need would be another one
        found.append(Need(_text(one.get("key")), level))
    return found


class Number(str):
    """A number as it is written."""

    __slots__ = ()


def encodable(text: str) -> str:
    """Half of a surrogate pair, which JSON can say and UTF-8 cannot, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _parsed(text: str) -> Any:
    """The value at the start of the text; None if there is none."""
    try:
        return DECODER.raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, Number):
        return _as_java_says(value)
    return encodable(value if isinstance(value, str) else _json(value))


def _json(value: Any) -> str:
    """Without a space, as Spark writes what it has read."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(key)}:{_json(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, Number):
        return _as_java_says(value)
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04X}", json.dumps(value, ensure_ascii=False))


def _as_java_says(said: Number) -> str:
    """A number inside of JSON text goes through Java's long or double on Spark."""
    if re.fullmatch("-?[0-9]+", said):
        return str(int(said))
    value = float(said)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    if value in (float("inf"), float("-inf")):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    digits, _, exponent = f"{value!r}".partition("e")
    sign, digits = ("-", digits[1:]) if digits[0] == "-" else ("", digits)
    whole, _, rest = digits.partition(".")
    power = int(exponent or 0) + len(whole.lstrip("0")) - 1
    figures = (whole + rest).strip("0") if exponent or rest == "0" else (whole + rest).lstrip("0")
    if not whole.strip("0"):
        power = int(exponent or 0) - (len(rest) - len(rest.lstrip("0"))) - 1
    return f"{sign}{figures[0]}.{figures[1:] or '0'}E{power}"


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _number(said: str) -> Number:
    if len(said) > _LONGEST_NUMBER:
        raise ValueError("a number too long to be one")
    return Number(said)


# JSON as the standard has it: NaN is not JSON. Numbers stay text, of the class `Number`.
DECODER = json.JSONDecoder(parse_constant=_refuse, parse_int=_number, parse_float=_number)


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo | None:
    """`Z`, `+01:00`, `UTC-3`, `Europe/Berlin`, `PST`; None for what is no zone."""
    # One digit in place of two, as in +1:00 and +01:5.
    name = re.sub(r"^([+-])([0-9]):", r"\g<1>0\2:", name)
    name = re.sub(r"^([+-])([0-9]{2}):([0-9])$", r"\1\2:0\3", name)
    name = _SHORT_ZONES.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    prefixed = re.fullmatch(r"(?:UTC|GMT|UT)([+-].*)", name)
    if name[:1] in ("+", "-") or prefixed:
        return _fixed(prefixed[1] if prefixed else name)
    return ZoneInfo(name) if name in _zone_names() else None


@cache
def _zone_names() -> set[str]:
    """The zones Java knows. Each call of `available_timezones` reads some hundred files."""
    return available_timezones() - {"ROC"}


def _fixed(offset: str) -> tzinfo | None:
    found = _OFFSET.fullmatch(offset)
    if found is None or (found[3] is not None and len(found[2]) == 1):
        return None
    # Colons everywhere or nowhere.
    if found[4] is not None and offset.count(":") not in (0, 2):
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
    shift = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or shift > timedelta(hours=18):
        return None
    return timezone(-shift if found[1] == "-" else shift)


def _offset_s(zone: tzinfo, local_s: int) -> int:
    """How far the zone is ahead of UTC at a local time."""
    if zone is UTC:
        return 0
    # Years that Python does not know: rules of summer time repeat with the calendar, and before 1 there were none.
    if local_s > _LAST_S:
        local_s = _LAST_S - (_LAST_S - local_s) % (_CYCLE_DAYS * _DAY_S)
    local = (_EPOCH + timedelta(seconds=max(local_s, _FIRST_S))).replace(tzinfo=zone)
    shift = local.utcoffset()
    assert shift is not None
    return round(shift.total_seconds())


def _days_of(year: int, month: int) -> int:
    return monthrange(year % 400 + 2000, month)[1]


def _days_since_1970(year: int, month: int, day: int) -> int:
    cycles, within = divmod(year - 2000, 400)
    return (datetime(2000 + within, month, day) - datetime(1970, 1, 1)).days + cycles * _CYCLE_DAYS
