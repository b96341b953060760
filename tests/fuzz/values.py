"""Values to try: texts that some part of the way cannot hold, JSON and what is nearly JSON, rows and their columns."""

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

SMALLEST, LARGEST = -(2**15), 2**15 - 1
SMALL, WHOLE, BIG = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))

# With NUL, halves of surrogate pairs, quotes, backslashes, and what a terminal or a page would obey.
ODD = [
    "\x00",
    "\ud800",
    "\udfff",
    "\\",
    '"',
    "'",
    "\x1b[2J",
    "\r\n",
    "<script>1</script>",
    "\u2028",
    "{}%s",
    "\U0001f40c",
]
TEXTS = st.one_of(
    st.text(st.characters(codec=None, exclude_categories=()), max_size=40),
    st.lists(st.sampled_from(ODD), max_size=6).map("".join),
    st.tuples(st.sampled_from("xé\x00\ud800\U0001f40c"), st.sampled_from([62, 63, 64, 255, 256, 5_000])).map(
        lambda pair: pair[0] * pair[1]
    ),
)  # fmt: skip
STORABLE = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40),
    st.sampled_from(["", " ", "x" * 5_000, "é" * 300, "a\nb", "<img src=x onerror=1>", "%s %(a)s {} \\", "!cancel w"]),
)

NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1e308, 5e-324, 2**63, -(2**200), 10**400, math.nan, math.inf, -math.inf]),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
JSON_LIKE: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(TEXTS, st.integers(), st.none(), st.floats()), inner, max_size=5),
    ),
    max_leaves=20,
)
NO_JSON = st.sampled_from(
    [
        Decimal(1),
        date(2026, 1, 1),
        datetime(2026, 1, 1, tzinfo=UTC),
        timedelta(1),
        {1},
        b"x",
        object(),
        ...,
        1j,
        range(3),
    ]
)
PAYLOADS = st.one_of(
    st.dictionaries(TEXTS, st.one_of(JSON_LIKE, NO_JSON), max_size=5),
    st.dictionaries(st.text(max_size=5), st.one_of(st.integers(-9, 9), st.text(max_size=9)), max_size=5),
    JSON_LIKE,
    NO_JSON,
)

INSTANTS = st.one_of(
    st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))])),
    st.datetimes(),
    st.timedeltas(),
    st.sampled_from([timedelta.max, timedelta.min, datetime.max, datetime.min, date(2026, 1, 1), 7, 1.5, "tomorrow"]),
    st.none(),
)
ANYTHING = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, st.lists(st.integers(), max_size=2), NO_JSON)

# -- rows as SQL can write them ---------------------------------------------------------------------------------------

TIMES = st.one_of(
    st.sampled_from(["infinity", "-infinity", "294276-12-31 23:59:59+00", "4713-01-01 00:00:00+00 BC", "0001-01-01Z"]),
    st.integers(-(10**6), 10**6).map(lambda seconds: f"now:{seconds}"),  # from now
)
JSON_TEXTS = st.one_of(
    st.sampled_from(["null", "true", "[]", "{}", "0", '"text"', "[1, [2]]", '{"context": 1}', '{"self": 1}']),
    st.sampled_from(["1" + "0" * 400, "-1e400", "1e-400", '{"value": 1e999}', "1" * 5_000]),
    st.sampled_from(["[" * 900 + "]" * 900, '{"value": ' + "[" * 3_000 + "]" * 3_000 + "}"]),
    st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), STORABLE), lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(STORABLE, inner, max_size=4)), max_leaves=8).map(json.dumps),
)  # fmt: skip
TYPES = st.one_of(
    st.sampled_from(["probe.ok", "probe.echo", "probe.boom", "probe.small_input", "probe.discard", "probe.gone", ""]),
    st.sampled_from(["probe.ok", "probe.ok", "jobqueue.notify", "probe.orm", "x" * 3_000]),
    STORABLE,
)
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "job_type": TYPES,
    "queue": st.one_of(st.just("default"), STORABLE),
    "priority": SMALL,
    "status": st.one_of(st.sampled_from([1, 1, 1, 2, 2, 3, 4, 5, 5, 6, 7]), st.sampled_from([0, 8, SMALLEST, LARGEST])),
    "payload": JSON_TEXTS,
    "payload_bytes": WHOLE,
    "run_after": TIMES,
    "dedupe_key": st.one_of(st.none(), STORABLE),
    "owner": STORABLE,
    "attempts": st.one_of(st.integers(0, 5), SMALL, st.sampled_from([SMALLEST, LARGEST])),
    "max_attempts": st.one_of(st.integers(0, 3), SMALL, st.sampled_from([SMALLEST, LARGEST])),
    "interruptions": st.one_of(st.integers(0, 11), st.sampled_from([SMALLEST, LARGEST])),
    "worker_id": st.one_of(st.none(), STORABLE),
    "lease_epoch": st.one_of(st.integers(0, 9), BIG, st.sampled_from([2**63 - 1, -(2**63)])),
    "lease_until": st.one_of(st.none(), TIMES),
    "claimed_at": st.one_of(st.none(), TIMES),
    "run_started_at": st.one_of(st.none(), TIMES),
    "first_started_at": st.one_of(st.none(), TIMES),
    "finished_at": st.one_of(st.none(), TIMES),
    "cancel_requested_at": st.one_of(st.none(), st.none(), TIMES),
    "unknown_since": st.one_of(st.none(), TIMES),
    "progress": st.one_of(st.none(), JSON_TEXTS),
    "result": st.one_of(st.none(), JSON_TEXTS),
    "outcome": st.one_of(st.none(), SMALL, st.integers(1, 11)),
    "last_error": st.one_of(st.none(), STORABLE),
    "error_class": st.one_of(st.none(), STORABLE),
    "fingerprint": st.one_of(st.none(), STORABLE),
    "cost_total": st.sampled_from(["0", "-999999999999.99999999", "999999999999.99999999", "0.00000001", "NaN"]),
    "cost_last": st.sampled_from(["0", "-999999999999.99999999", "999999999999.99999999", "NaN"]),
    "cpu_seconds": st.one_of(st.none(), st.floats()),
    "peak_memory_bytes": st.one_of(st.none(), BIG),
    "created_at": TIMES,
    "updated_at": TIMES,
}
ROWS = st.fixed_dictionaries({}, optional=COLUMNS)


def refusal(call: Callable[[], Any], *kinds: type[Exception]) -> tuple[Any, Exception | None]:
    """Return (what the call returns, None), or (None, the error of one of these kinds); others are raised."""
    try:
        return call(), None
    except kinds as error:
        return None, error
