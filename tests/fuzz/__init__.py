"""Random input of every kind: a few examples in `make test`, many in `make test-faults`."""
