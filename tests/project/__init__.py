"""Tests of the example project: its documents, its partner, its demo."""
