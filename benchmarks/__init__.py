"""Measure the product: real workers, real clients, and beside them the same work in bare SQL on the same server."""
