"""Run `python -m benchmarks.peers.drivers NAME` with the interpreter of the peer's own environment."""

from .base import main

main()
