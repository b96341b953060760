"""Why a peer has no figure: the text is what its row shows in place of one."""

from __future__ import annotations


class PeerFailed(RuntimeError):
    """The peer could not be installed or started, or did not do what was asked; the text says what and why."""


class LostOrDoubled(PeerFailed):
    """A job did not run, or ran more than once, or the store disagrees: no rate is worth showing."""


class NotOffered(PeerFailed):
    """The peer has no such thing, as a bulk API: nothing to measure, and no fault either."""
