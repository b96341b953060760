"""Public suites, fetched from the package index when they are run: `make test-conformance`."""
