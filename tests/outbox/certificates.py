"""A certificate that a receiver shows, made by the openssl of the machine."""

import subprocess
from pathlib import Path


def make_certificate(folder: Path, name: str) -> Path:
    """Return a file with a new key and a certificate for a name, signed by itself."""
    key, certificate, both = folder / "key.pem", folder / "certificate.pem", folder / "both.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2".split()
    names = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    both.write_text(key.read_text() + certificate.read_text())
    return both
