"""The benchmarks work; what they measure is their own affair (make bench)."""
