"""Turn any exception into text that can always be stored: within bytes, valid UTF-8, without NUL.

The write that records a failure must not fail itself. So nothing of the exception is trusted: its ``__str__`` may
raise, return megabytes or a subclass of str with its own ideas, its names may hold anything. Exceptions are never
pickled; this text is all that leaves the handler's process.
"""

from __future__ import annotations

import hashlib
import re
import sysconfig
import traceback
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final, NamedTuple

_MAX_CLASS_BYTES: Final = 255
_FINGERPRINT_CHARS: Final = 2000

# The frames between the executor and the handler are the same for every error and tell its reader nothing.
_EXECUTOR_MODULES: Final = (
    "jobqueue.backends",
    "jobqueue.children",
    "jobqueue.handlers",
    "jobqueue.registry",
    "jobqueue.foreground",
    "jobqueue.testing.running",
    "asgiref",
    "asyncio",
    "concurrent.futures",
    "contextlib",
    "importlib",
)
_FOREIGN_PATHS: Final = ("site-packages", "dist-packages", "<frozen")

# Order matters: a uuid holds digits, a path may hold quotes.
_PLACEHOLDERS: Final = (
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<uuid>"),
    (re.compile(r"(?<!\w)'[^'\n]*'|(?<!\w)\"[^\"\n]*\""), "<text>"),
    (re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"), "<address>"),
    (re.compile(r"(?:[A-Za-z]:\\|https?://|(?<![\w.])\.{0,2}/)[^\s,;:)\]}>'\"]+"), "<path>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b|\b(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{12,}\b"), "<hex>"),
    (re.compile(r"\d+(?:[.,]\d+)*"), "<n>"),
    (re.compile(r"\s+"), " "),
)


class ErrorText(NamedTuple):
    """What is stored of an exception."""

    error_class: str
    text: str
    traceback: str
    fingerprint: str


def describe(exc: BaseException, *, max_bytes: int) -> ErrorText:
    """Return the exception as text, ``text`` and ``traceback`` each within ``max_bytes`` of UTF-8; never raises."""
    error_class = class_name(exc)
    text = cut_text(_message(exc), max_bytes)
    frames = _own_frames(exc.__traceback__)
    trace = _safely(
        lambda: _format(exc, frames, max_bytes),
        # Code made at run time may name files that cannot exist, and looking for their lines then raises.
        lambda _error: _format_without_source(frames, f"{error_class}: {text}"),
    )
    return ErrorText(
        error_class, text, cut_text(trace, max_bytes), fingerprint(error_class, text, _innermost_frame(frames))
    )


def class_name(exc: BaseException) -> str:
    """Return the module and qualified name of the exception's class, "ValueError" for a built-in one."""
    kind = type(exc)
    module, name = kind.__module__, kind.__qualname__
    full = name if module == "builtins" else f"{module}.{name}"
    return cut_text(full, _MAX_CLASS_BYTES)


def fingerprint(error_class: str, text: str, frame: str = "") -> str:
    """Return 16 hex digits that are equal for errors of one cause: numbers, names and paths in the text do not count.

    ``frame`` is where it happened, as "module:function"; line numbers would change with every release.
    """
    key = f"{error_class}\n{normal_message(text)}\n{frame}"
    return hashlib.sha256(key.encode(errors="backslashreplace")).hexdigest()[:16]


def normal_message(text: str) -> str:
    """Return the head of a message as its fingerprint takes it, on one line: <n>, <uuid>, <text> … for what varies."""
    message = text[:_FINGERPRINT_CHARS]
    for pattern, placeholder in _PLACEHOLDERS:
        message = pattern.sub(placeholder, message)
    return message.strip()


def clean_text(text: str) -> str:
    """Return the text as PostgreSQL can store it: NUL and lone surrogates are shown escaped."""
    # encode() of str itself: a subclass returned by some __str__ could answer anything.
    return str.encode(text, "utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


def cut_text(text: str, max_bytes: int) -> str:
    """Return the cleaned text within ``max_bytes`` of UTF-8: two thirds from its head, the rest from its tail.

    What is left out is counted between them. The end of a message tends to hold the reason, its start the place.
    """
    data = clean_text(text).encode()
    if len(data) <= max_bytes:
        return data.decode()
    room = max_bytes - len(_mark(len(data)).encode())
    if room <= 0:
        return data[:max_bytes].decode(errors="ignore")
    head = data[: room - room // 3].decode(errors="ignore")
    tail = data[len(data) - room // 3 :].decode(errors="ignore") if room >= 3 else ""
    return f"{head}{_mark(len(data) - len(head.encode()) - len(tail.encode()))}{tail}"


def _mark(count: int) -> str:
    return f"… [{count} bytes cut] …"


def _message(exc: BaseException) -> str:
    return _safely(lambda: str(exc), lambda error: f"<the message cannot be shown: __str__ raised {class_name(error)}>")


def _safely(call: Callable[[], str], otherwise: Callable[[BaseException], str]) -> str:
    try:
        return call()
    except BaseException as error:  # noqa: BLE001 - the exception's own code runs here, and may even raise SystemExit
        return otherwise(error)


def _own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the handler on, or all of it where the error is the executor's own."""
    first = trace
    while first is not None and _is_executor(first.tb_frame):
        first = first.tb_next
    return trace if first is None else first


def _is_executor(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__") or ""
    return any(name == own or name.startswith(f"{own}.") for own in _EXECUTOR_MODULES)


def _format(exc: BaseException, frames: TracebackType | None, max_bytes: int) -> str:
    lines = traceback.TracebackException(type(exc), exc, frames, compact=True).format()
    # Each piece is cut by itself: one of 50 MB would otherwise be copied several times.
    return "".join(piece if len(piece) <= max_bytes else cut_text(piece, max_bytes) for piece in lines)


def _format_without_source(trace: TracebackType | None, last_line: str) -> str:
    lines = ["Traceback (most recent call last):\n"] if trace else []
    while trace is not None:
        code = trace.tb_frame.f_code
        lines.append(f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}\n')
        trace = trace.tb_next
    return "".join([*lines, last_line])


def _innermost_frame(trace: TracebackType | None) -> str:
    """Return "module:function" of the deepest frame of the project, else of the deepest of all."""
    deepest = own = ""
    stdlib = sysconfig.get_path("stdlib")
    while trace is not None:
        code = trace.tb_frame.f_code
        deepest = f"{trace.tb_frame.f_globals.get('__name__', '?')}:{code.co_name}"
        filename = code.co_filename
        if not filename.startswith(stdlib) and not any(part in filename for part in _FOREIGN_PATHS):
            own = deepest
        trace = trace.tb_next
    return own or deepest
