"""A TCP forwarder in front of PostgreSQL that can be shut, opened, cut, and made to swallow everything."""

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Forwarder:
    """Listens on a port of its own, opened or not yet; everything goes through one thread."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._listener: socket.socket | None = None
        self._selector = selectors.DefaultSelector()
        self._peers: dict[socket.socket, socket.socket] = {}
        self._lock = threading.RLock()
        self._ended = threading.Event()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._silent = False
        self._thread = threading.Thread(target=self._serve, name="forwarder", daemon=True)
        self._thread.start()

    def open(self) -> None:
        """Accept connections."""
        with self._lock:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", self.port))
            listener.listen()
            self._listener = listener
            self._selector.register(listener, selectors.EVENT_READ)

    def shut(self) -> None:
        """Refuse connections and cut those that exist."""
        with self._lock:
            if self._listener is not None:
                self._selector.unregister(self._listener)
                self._listener.close()
                self._listener = None
            for sock in list(self._peers):
                self._drop(sock)

    def swallow(self, silent: bool = True) -> None:
        """Keep connections open and drop what comes through them; new ones are accepted and get no answer."""
        with self._lock:
            if self._silent and not silent:
                for sock in list(self._peers):
                    self._drop(sock)  # what was dropped cannot be made up for
            self._silent = silent

    def close(self) -> None:
        """End the thread."""
        self.shut()
        self._ended.set()
        self._thread.join(5)
        self._selector.close()

    def _serve(self) -> None:
        while not self._ended.is_set():
            with self._lock:
                watching = bool(self._selector.get_map())
            if not watching:
                self._ended.wait(0.02)
                continue
            for key, _ in self._selector.select(0.05):
                with self._lock, contextlib.suppress(OSError, KeyError):
                    self._pass_on(key.fileobj)  # type: ignore[arg-type]

    def _pass_on(self, sock: socket.socket) -> None:
        if sock is self._listener:
            near, _ = sock.accept()
            far = socket.create_connection(self._target)
            for one, other in ((near, far), (far, near)):
                self._peers[one] = other
                self._selector.register(one, selectors.EVENT_READ)
        elif sock in self._peers:
            data = sock.recv(1 << 16)
            if not data:
                self._drop(sock)
            elif not self._silent:
                self._peers[sock].sendall(data)

    def _drop(self, sock: socket.socket) -> None:
        for one in (sock, self._peers.get(sock)):
            if one is not None and self._peers.pop(one, None) is not None:
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(one)
                one.close()


@contextmanager
def forwarder(host: str, port: int) -> Iterator[Forwarder]:
    """Give a forwarder, shut at first."""
    made = Forwarder(host, port)
    try:
        yield made
    finally:
        made.close()
