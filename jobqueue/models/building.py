"""How migrations add an index to a table in use: beside the traffic, and anew where a build was cut off."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently


class BuildIndex(AddIndexConcurrently):
    """AddIndexConcurrently that can be run again; the migration needs `atomic = False`.

    A concurrent build that ends early (lock_timeout, a deploy that was stopped) leaves an invalid index: it is written
    to and never read, and its name is taken, so that Django's operation fails at every further try.
    """

    def _ensure_not_in_transaction(self, schema_editor: Any) -> None:
        """Let `sqlmigrate` print it wherever it is called: it builds nothing."""
        if not schema_editor.collect_sql:
            super()._ensure_not_in_transaction(schema_editor)

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Drop what an earlier try left, and build; nothing where the index is there and valid."""
        self._ensure_not_in_transaction(schema_editor)
        drop = f"DROP INDEX CONCURRENTLY IF EXISTS {schema_editor.quote_name(self.index.name)}"
        if schema_editor.collect_sql:
            schema_editor.execute(drop)
        else:
            valid = self._validity(schema_editor)
            if valid:
                return
            if valid is False:
                schema_editor.execute(drop)
        super().database_forwards(app_label, schema_editor, from_state, to_state)

    def _validity(self, schema_editor: Any) -> bool | None:
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(
                "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)",
                [schema_editor.quote_name(self.index.name)],
            )
            row = cursor.fetchone()
        return None if row is None else bool(row[0])
