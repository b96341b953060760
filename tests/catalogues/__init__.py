"""The catalogues of jobqueue/locale: made from the sources by `make messages`, and judged."""
