"""The figures of the moment and the sums of costs."""
