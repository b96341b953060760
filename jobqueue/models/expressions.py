"""Database expressions that the models' defaults use."""

from django.db import models


class StatementTimestamp(models.Func):
    """The database's time at the start of the statement: never now(), which stands still inside a transaction."""

    template = "statement_timestamp()"
    output_field = models.DateTimeField()
    arity = 0
