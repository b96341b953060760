"""What a job must be to be enqueued: everything is checked here, in Python, before PostgreSQL sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from django.utils import timezone

from jobqueue.conf import JobQueueSettings, get_settings
from jobqueue.exceptions import JobQueueError, PayloadError
from jobqueue.payloads import check_key, check_name, encode_payload, flat_encoder
from jobqueue.registry import registry

if TYPE_CHECKING:
    from jobqueue.handlers import Handler

LONGEST_DELAY = timedelta(days=36_500)
# A day within what datetime can hold, so that no session's time zone moves a stored instant out of it.
FIRST_INSTANT, LAST_INSTANT = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One job of enqueue_many(): the arguments of enqueue()."""

    job_type: str
    payload: Mapping[str, Any] | None = None
    queue: str | None = None
    priority: int | None = None
    run_after: datetime | timedelta | None = None
    dedupe_key: str | None = None
    max_attempts: int | None = None
    owner: str = ""


class Terms(NamedTuple):
    """What a job of one type gets where its enqueue says nothing, and the encoder of its usual payloads."""

    job_type: str
    queue: str
    priority: int
    max_attempts: int
    payload_max_bytes: int
    encode_flat: Callable[[object], str | None]


# By the name asked for. Kept because merging the limits costs more than everything else about a job; an entry holds
# as long as the handler and the settings are the very same objects.
_terms: dict[str, tuple[Handler, JobQueueSettings, Terms]] = {}


def terms_of(job_type: str) -> Terms:
    """Return the terms of a job type or alias. Raises UnknownJobType or HandlerImportError."""
    handler, settings = registry.get(job_type), get_settings()
    known = _terms.get(job_type)
    if known is None or known[0] is not handler or known[1] is not settings:
        limit = min(handler.limits.payload_bytes or settings.PAYLOAD_MAX_BYTES, settings.PAYLOAD_MAX_BYTES)
        encode = flat_encoder(limit)
        terms = Terms(handler.name, handler.queue, handler.priority, handler.max_attempts, limit, encode)
        known = _terms[job_type] = (handler, settings, terms)
    return known[2]


class Arrival(NamedTuple):
    """A job that passed every check and is ready to be inserted."""

    job_type: str
    queue: str
    priority: int
    max_attempts: int
    value: Mapping[str, Any]
    payload: str
    payload_bytes: int
    dedupe_key: str | None = None
    owner: str = ""
    run_after: datetime | None = None
    delay: timedelta | None = None
    task_backend: str | None = None


def arrive(
    job_type: str,
    payload: Mapping[str, Any] | None = None,
    queue: str | None = None,
    priority: int | None = None,
    run_after: datetime | timedelta | None = None,
    dedupe_key: str | None = None,
    max_attempts: int | None = None,
    owner: str = "",
    index: int | None = None,
) -> Arrival:
    """Check the arguments of enqueue() against the handler and the settings.

    Raises UnknownJobType, InvalidName, PayloadError, TypeError or ValueError, each naming the value and the rule;
    nothing of the job has reached the database then.
    """
    terms = terms_of(job_type)
    value = {} if payload is None else payload
    flat = terms.encode_flat(value)
    text, size = (flat, len(flat)) if flat is not None else _encode(value, terms, index)
    instant, delay = (None, None) if run_after is None else _due(run_after)
    return Arrival(
        terms.job_type,
        terms.queue if queue is None else check_name("queue", queue),
        terms.priority if priority is None else _smallint("priority", priority, -32768),
        terms.max_attempts if max_attempts is None else _smallint("max_attempts", max_attempts, 1),
        value,
        text,
        size,
        None if dedupe_key is None else check_key("dedupe_key", dedupe_key),
        check_key("owner", owner) if owner else "",
        instant,
        delay,
    )


def _encode(value: object, terms: Terms, index: int | None) -> tuple[str, int]:
    return encode_payload(value, max_bytes=terms.payload_max_bytes, index=index, job_type=terms.job_type)


def _smallint(name: str, value: int, least: int) -> int:
    if type(value) is not int:
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if not least <= value <= 32767:
        raise ValueError(f"{name} must be between {least} and 32767, not {value}")
    return value


def _due(run_after: object) -> tuple[datetime | None, timedelta | None]:
    """Return (instant, None) or (None, delay from the database's now)."""
    if isinstance(run_after, timedelta):
        if run_after > LONGEST_DELAY:
            raise ValueError(f"run_after must be less than a century ahead, not {run_after}")
        return None, max(run_after, timedelta(0))
    if not isinstance(run_after, datetime):
        raise TypeError(f"run_after must be an aware datetime or a timedelta, not {type(run_after).__name__}")
    if timezone.is_naive(run_after):
        raise ValueError(f"run_after must be aware: {run_after!r} has no time zone (use django.utils.timezone)")
    try:
        instant = run_after.astimezone(UTC)
    except OverflowError:
        instant = None
    if instant is None or not FIRST_INSTANT <= instant <= LAST_INSTANT:
        raise ValueError(f"run_after must be from the year 1 to the year 9999 in every time zone, not {run_after}")
    return instant, None


class Arrivals:
    """The items of a bulk (JobSpec, dict of enqueue()'s arguments, tuple of type and payload) as arrivals.

    Each is checked when its turn comes; errors name its index.
    """

    def __init__(self, specs: Iterable[JobSpec | Mapping[str, Any] | tuple[Any, ...]]) -> None:
        # All at hand before the first is checked: what makes them may ask the database, which a COPY would not allow.
        self._specs = list(specs)

    @property
    def ask_nothing(self) -> bool:
        """Whether checking them cannot reach the database: no type of the caller's own, which might look there."""
        return {tuple, dict, JobSpec}.issuperset(map(type, self._specs))

    def __len__(self) -> int:
        return len(self._specs)

    def __iter__(self) -> Iterator[Arrival]:
        plain = _plain_arrivals()
        for index, spec in enumerate(self._specs):
            try:
                arrival = plain(spec) or _arrival(spec, index)
            except (JobQueueError, TypeError, ValueError, LookupError) as error:
                if not isinstance(error, PayloadError):  # which names the index itself
                    error.args = (f"item {index}: {error}", *error.args[1:])
                raise
            yield arrival


def _plain_arrivals() -> Callable[[object], Arrival | None]:
    """Return a function for the usual item of a large bulk, a tuple (type, flat payload), which takes half the time.

    None stands for any other item, which arrive() judges.
    """
    known: dict[str, Terms] = {}
    new = tuple.__new__  # past the named tuple's own constructor, which takes longer than all the checks

    def plain_arrival(spec: object) -> Arrival | None:
        if type(spec) is not tuple or len(spec) != 2:
            return None
        job_type, payload = spec
        terms = known.get(job_type)
        if terms is None:
            terms = known[job_type] = terms_of(job_type)
        name, queue, priority, max_attempts, _, encode = terms
        text = encode(payload)
        if text is None:
            return None
        return new(Arrival, (name, queue, priority, max_attempts, payload, text, len(text), None, "", None, None, None))

    return plain_arrival


def _arrival(spec: object, index: int) -> Arrival:
    if isinstance(spec, Mapping):
        return arrive(index=index, **spec)
    if isinstance(spec, JobSpec):
        return arrive(**{name: getattr(spec, name) for name in JobSpec.__slots__}, index=index)
    if isinstance(spec, tuple) and 1 <= len(spec) <= 2:
        return arrive(spec[0], spec[1] if len(spec) > 1 else None, index=index)
    raise TypeError(f"must be a JobSpec, a dict or a tuple (job type, payload), not {spec!r:.80}")
