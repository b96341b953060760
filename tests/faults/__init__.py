"""Workers killed, frozen and cut off on purpose, in scenarios too long for every run."""
