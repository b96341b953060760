"""A real SMTP server, as small as can be: it keeps what it gets, and refuses what it is told to."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Mail:
    """One message as it came in: the envelope and the bytes."""

    sender: str
    recipients: list[str]
    data: bytes


class SmtpServer(socketserver.ThreadingTCPServer):
    """Takes every message, unless `refuse` has an answer for a command: {"RCPT": "550 no such user"}."""

    allow_reuse_address = daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.mails: list[Mail] = []
        self.refuse: dict[str, str] = {}

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])


class _Session(socketserver.StreamRequestHandler):
    server: SmtpServer

    def handle(self) -> None:
        self._say("220 test")
        sender = ""
        recipients: list[str] = []
        while line := self.rfile.readline().decode().strip():
            word = line.split()[0].upper()
            if word in self.server.refuse:
                self._say(self.server.refuse[word])
            elif word == "DATA":
                self._say("354 go on")
                data = self._data()
                if "BODY" in self.server.refuse:
                    self._say(self.server.refuse["BODY"])
                else:
                    self.server.mails.append(Mail(sender, list(recipients), data))
                    self._say("250 taken")
            elif word == "QUIT":
                self._say("221 bye")
                return
            else:
                if word == "MAIL":
                    sender, recipients = _address(line), []
                elif word == "RCPT":
                    recipients.append(_address(line))
                self._say("250 yes")

    def _data(self) -> bytes:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b"..") else line)
        return b"".join(lines)

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


def _address(line: str) -> str:
    return line.partition("<")[2].partition(">")[0]


@contextmanager
def smtp_server() -> Iterator[SmtpServer]:
    """Serve until the block ends."""
    server = SmtpServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
