"""What in a tool's output may differ from run to run without meaning anything: a declared list, and nothing else.

A number that matters must never be hidden, so each entry asks for more than a shape. A date or a time of day is
volatile only where it is that of the run itself; a duration only where it is told as one that was measured, and is no
longer than the attempt had lasted by then; names and addresses only in the form that a program gives to new ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_ZONES = timedelta(hours=14)  # the farthest that a local clock is from UTC
_SLACK = timedelta(minutes=2)
_TOLERANCE = 5.0  # seconds
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True)
class Moment:
    """When a text came to be: `after` seconds after `began`, which is the attempt's beginning (UTC)."""

    began: datetime
    after: float

    @property
    def now(self) -> datetime:
        return self.began + timedelta(seconds=self.after)


Judge = Callable[["re.Match[str]", Moment], bool]


def _always(found: re.Match[str], moment: Moment) -> bool:
    return True


def _of_the_run(found: re.Match[str], moment: Moment) -> bool:
    """Whether a date, with or without a time of day, lies between the attempt's beginning and the moment, anywhere."""
    told = found.groupdict()
    month = told["month"]
    number = _MONTHS.index(month) + 1 if month in _MONTHS else int(month)
    hour = told.get("hour")
    try:
        day = datetime(int(told["year"]), number, int(told["day"]), tzinfo=UTC)
    except ValueError:
        return False
    if hour is None:
        return moment.began - _ZONES <= day + timedelta(days=1) and day <= moment.now + _ZONES
    time = day + timedelta(hours=int(hour), minutes=int(told["minute"]), seconds=int(told.get("second") or 0))
    return moment.began - _ZONES - _SLACK <= time <= moment.now + _ZONES + _SLACK


def _time_of_the_run(found: re.Match[str], moment: Moment) -> bool:
    """The same for a time of day alone. Local clocks differ by whole quarters of an hour."""
    told = int(found["minute"]) * 60 + int(found["second"])
    lasted = moment.after + 2 * _TOLERANCE
    began = (moment.began.minute * 60 + moment.began.second - _TOLERANCE) % 900
    return (told - began) % 900 <= lasted


def _epoch_of_the_run(found: re.Match[str], moment: Moment) -> bool:
    told = float(found[0])
    return moment.began.timestamp() - _TOLERANCE <= told <= moment.now.timestamp() + _TOLERANCE


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _measured(found: re.Match[str], moment: Moment) -> bool:
    """Whether a duration is no longer than the attempt had lasted."""
    unit = found["unit"].lower()
    factor = _UNITS["ms" if unit.startswith(("ms", "milli")) else unit[0]]
    return float(found["number"]) * factor <= moment.after + _TOLERANCE


@dataclass(frozen=True)
class Volatile:
    """One entry: what it is, how it looks, what stands in its place, and when it is volatile."""

    name: str
    pattern: str
    instead: str
    judge: Judge = _always


_DAY = r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?"
_NAME = rf"(?P<month>{'|'.join(_MONTHS)})"
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_BAR = r"(?:\d+:)?\d\d:\d\d"
_DURATION = r"(?P<number>\d+(?:\.\d+)?) ?(?P<unit>ms|milliseconds?|s|secs?|seconds?|min|mins|minutes?|h|hours?)\b"
_MEASURED = (
    r"elapsed(?: time)?|took|time taken|wall(?:[ -]?clock)?[ -]time|run(?:ning)?[ -]?time"
    r"|(?:execution|training|cpu) time"
    r"|(?:finished|completed|done|built|passed|failed|errors?|warnings?|skipped|ran \d+ tests?) in|time difference of"
)
_RIGHTS = r"[rwxsStT-]{9}"
_SIZE = r"\d[\d.]*[KMGT]?"
_WHEN = rf"(?:(?:{'|'.join(_MONTHS)}) +\d+ +(?:\d\d:\d\d|\d{{4}})|\d{{4}}-\d\d-\d\d \d\d:\d\d(?::\S+ [+-]\d{{4}})?)"

VOLATILE = (
    Volatile("sum of blocks in a listing", rf"^total {_SIZE}(?=\n[bcdlps-]{_RIGHTS})", "total <blocks>"),
    Volatile(
        "size, owner and time of a folder in a listing",
        rf"^(?P<mode>d{_RIGHTS})[.+@]? +\d+ +\S+ +\S+ +{_SIZE} +{_WHEN} (?=\S)",
        r"\g<mode> ",
    ),
    Volatile(
        "owner and time of a file in a listing",
        rf"^(?P<mode>[bclps-]{_RIGHTS})[.+@]? +\d+ +\S+ +\S+ +(?P<size>{_SIZE}) +{_WHEN} (?=\S)",
        r"\g<mode> \g<size> ",
    ),
    Volatile("date and time", rf"\b{_DAY}[T _]{_CLOCK}(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)\b)?", "<time>", _of_the_run),
    Volatile(
        "date and time in a file's name",
        r"(?<!\d)(?P<year>\d{4})-?(?P<month>\d\d)-?(?P<day>\d\d)[-_T]?(?P<hour>\d\d)-?(?P<minute>\d\d)-?(?P<second>\d\d)(?!\d)",
        "<time>",
        _of_the_run,
    ),
    Volatile(
        "as `date` prints it",
        rf"\b{_WEEKDAY} {_NAME} +(?P<day>\d\d?) {_CLOCK}(?: [AP]M)?(?: [A-Z]{{2,5}}| [+-]\d\d)? (?P<year>\d{{4}})\b",
        "<time>",
        _of_the_run,
    ),
    Volatile(
        "as mail has it, and tables of models",
        rf"\b{_WEEKDAY}, (?P<day>\d\d?) {_NAME} (?P<year>\d{{4}})(?: {_CLOCK}(?: (?:GMT|UTC|[+-]\d{{4}}))?)?",
        "<time>",
        _of_the_run,
    ),
    Volatile("date", rf"(?<![\d-]){_DAY}(?![\d-])", "<date>", _of_the_run),
    Volatile(
        "time of day",
        r"\b(?i:time): +(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)\b",
        "Time: <time>",
        _time_of_the_run,
    ),
    Volatile("seconds since 1970", r"(?<![\d.])\d{10}(?:\.\d+)?(?![\d.])", "<time>", _epoch_of_the_run),
    Volatile("a command that did well", r"^\[exit status 0, [\d.]+ s\]\n?", ""),
    Volatile("a command's time", r"^\[exit status (\d+), [\d.]+ s\]$", r"[exit status \1, <duration>]"),
    Volatile("a job's time", r"^\[job (\d+) (runs,|ended after) \d+ s\b", r"[job \1 \2 <duration>"),
    Volatile("what `time` prints", r"^(real|user|sys)(?:\t\d+m\d+[.,]\d+s| \d+[.,]\d\d)$", r"\1 <duration>"),
    Volatile(
        "what IPython's %time prints",
        r"^(CPU times: user|Wall time:) [\d.]+ (?:ns|[uµ]s|ms|s|min)\b.*$",
        r"\1 <duration>",
    ),
    Volatile("what R's system.time prints", r"^ +user +system +elapsed *\n(?: +\d+\.\d+){3} *$", "<duration>"),
    Volatile(
        "clock of the debugger in IPython's kernel",
        r"^\d+\.\d\ds - (?=Debugger warning: |make the debugger |to python to disable |Note: Debugging will )",
        "<s> - ",
    ),
    Volatile(
        "measured duration",
        rf"\b(?P<label>(?i:{_MEASURED}))[ :=~]{{1,4}}{_DURATION}",
        r"\g<label> <duration>",
        _measured,
    ),
    Volatile("bar of tqdm", rf"\[{_BAR}<(?:{_BAR}|\?), +(?:[\d.]+|\?)(?:\w+/s|s/\w+)[^\]\n]*\]", "[<bar>]"),
    Volatile("bar of Keras", r"\b\d+s \d+(?:us|ms|s)/(?:step|epoch)\b", "<bar>"),
    Volatile("where pip looks", r"^Looking in (links|indexes): .*\n?", ""),
    Volatile("bar of pip", r"(?<=[kM]B) [\d.]+ [kMG]?B/s(?: eta [\d:-]+)?", " <rate>"),
    Volatile("rate of dd", r"(?<=copied, )[\d.e-]+ s, [\d.]+ [kMG]?B/s", "<rate>"),
    Volatile("rate of wget", r"\([\d.]+ [KMG]?B/s\)(?= - )", "(<rate>)"),
    Volatile("rate of git", r"(?<=\| )[\d.]+ (?:bytes|[KMG]iB)/s", "<rate>"),
    Volatile("address of a Python object", r"(?<= at )0x[0-9a-f]{6,16}(?=>)", "<address>"),
    Volatile("address of an R object", r"<(environment|bytecode|pointer): 0x[0-9a-f]{6,16}>", r"<\1: <address>>"),
    Volatile(
        "folder of an attempt in the sandbox local", r"/(?:[^\s/:'\"]+/)*\.[^\s/:]+\.work(?=/workspace\b)", "<work>"
    ),
    Volatile(
        "temporary name",
        r"(?P<folder>/(?:var/)?tmp/)(?:tmp[a-z0-9_]{8}|tmp\.[A-Za-z0-9]{10}|Rtmp[A-Za-z0-9]{6}|pip-[a-z-]+-[a-z0-9_]{8})(?![\w-])",
        r"\g<folder><temporary>",
    ),
)

_COMPILED = tuple((re.compile(entry.pattern, re.MULTILINE), entry) for entry in VOLATILE)


def settled(text: str, moment: Moment) -> str:
    """`text`, which came to be at `moment`, with what is volatile replaced by marks."""
    for pattern, entry in _COMPILED:
        text = pattern.sub(lambda found, entry=entry: _replaced(found, entry, moment), text)  # type: ignore[misc]
    return text.rstrip()


def _replaced(found: re.Match[str], entry: Volatile, moment: Moment) -> str:
    return found.expand(entry.instead) if entry.judge(found, moment) else found[0]
