"""Where a handler is: written by its own process into a memory file that the supervisor reads.

There are two ways. The first is a signal whose handler runs in Python, between two instructions of the main thread: it
knows which thread and which coroutine run the job that is asked for, and shows coroutines that wait, which stand on no
thread's stack. It does not come to its turn while code in C holds the interpreter, or while the main thread waits for a
lock or in a system call of a library. Then a second signal has faulthandler write from the signal's own handler, in C.

What is written in C while another thread runs on may crash the process: frames are read that are being changed. With
one slot a child it is therefore the main thread alone, which runs the job and is the one that was interrupted. With
several slots it is all threads: there the main thread is this package's own, and never waits for long but for the
interpreter, so whoever holds that for so long is itself in C.

With one slot both signals restart the system calls that they interrupt. No values of variables are shown, and no lines
of source, so that nothing has to be read from disk inside a signal's handler.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType
from typing import Any, Final

from .protocol import DUMP_SIGNAL, STACK_SIGNAL

MOST_FRAMES: Final = 200
MOST_BYTES: Final = 60 * 1024
HERE: Final = os.path.dirname(os.path.abspath(__file__))
END: Final = "# end\n"
ORDER: Final = "(most recent call first)"


def listen(memory: int, on_signal: Callable[[int, FrameType | None], object], *, shared: bool) -> None:
    """Have this process answer both signals, the second one into the memory file; `shared`: by several slots."""
    os.set_inheritable(memory, False)
    signal.signal(STACK_SIGNAL, on_signal)
    signal.siginterrupt(STACK_SIGNAL, shared)
    faulthandler.register(DUMP_SIGNAL, file=memory, all_threads=shared, chain=False)


def head(run: tuple[int, int]) -> str:
    """Return the line that begins the stack of one run."""
    return f"# run {run[0]} {run[1]}\n"


def write(memory: int, run: tuple[int, int], ident: int, coroutine: Any, *, shared: bool) -> None:
    """Write where one run is: its thread, its coroutines, and other threads where those cannot be another job's."""
    lines = [head(run), *_of_run(ident, coroutine, shared=shared)]
    text = "".join(lines).encode("utf-8", "backslashreplace")[:MOST_BYTES]
    os.write(memory, text + b"\n" * (not text.endswith(b"\n")) + END.encode())


def cut_out(text: str, run: tuple[int, int]) -> str | None:
    """Return the stack of one run from what stands in the memory file, None where it is not there, or not whole yet."""
    _, found, rest = text.rpartition(head(run))
    stack, whole, _ = rest.partition(END)
    return stack if found and whole else None


def _of_run(ident: int, coroutine: Any, *, shared: bool) -> Iterator[str]:
    frames = sys._current_frames()
    tasks = [coroutine] if shared and coroutine is not None else [] if shared else _tasks()
    for waiting in tasks:
        frames_of_task = [(code, line) for code, line in _awaited(waiting) if not _is_ours(code)]
        if frames_of_task:
            yield f"Coroutine {frames_of_task[0][0].co_qualname} {ORDER}:\n"
            yield from _lines(reversed(frames_of_task))
    if ident in frames:
        yield f"Thread {_name(ident)} {ORDER}:\n"
        yield from _lines(_frames(frames[ident]))
    if not shared:
        for other, frame in frames.items():
            if other != ident:
                yield f"Thread {_name(other)} {ORDER}:\n"
                yield from _lines(_frames(frame))


def _tasks() -> list[Any]:
    """Return the coroutines of the event loop that runs in this thread."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return []
    return [task.get_coro() for task in asyncio.all_tasks(loop)]


def _awaited(waiting: Any) -> Iterator[tuple[CodeType, int]]:
    """Yield where a coroutine is and where what it awaits is, outermost first."""
    for _ in range(MOST_FRAMES):
        for kind in ("cr", "gi", "ag"):
            frame = getattr(waiting, f"{kind}_frame", None)
            if frame is not None:
                yield frame.f_code, frame.f_lineno or 0
                waiting = getattr(waiting, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
                break
        else:
            return


def _frames(frame: FrameType | None) -> Iterator[tuple[CodeType, int]]:
    """Yield the frames of a thread, innermost first; not what this package put above and below the handler's."""
    while frame is not None and _is_ours(frame.f_code):
        frame = frame.f_back
    while frame is not None and not _is_ours(frame.f_code):
        yield frame.f_code, frame.f_lineno or 0
        frame = frame.f_back


def _is_ours(code: CodeType) -> bool:
    return os.path.dirname(code.co_filename) == HERE


def _lines(frames: Iterable[tuple[CodeType, int]]) -> Iterator[str]:
    count = 0
    for count, (code, line) in enumerate(frames, 1):
        if count > MOST_FRAMES:
            yield "  ...\n"
            return
        yield f'  File "{code.co_filename}", line {line}, in {code.co_qualname}\n'
    if not count:
        yield "  (none of the project's)\n"


def _name(ident: int) -> str:
    # The dictionary itself: threading.enumerate() takes a lock, which the interrupted code may hold.
    thread = getattr(threading, "_active", {}).get(ident)
    return thread.name if thread is not None else hex(ident)
