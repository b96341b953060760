"""Whether every index is there and may be used."""

from __future__ import annotations

from typing import Final

from django.apps import apps
from django.db.models import UniqueConstraint

from jobqueue.ops.database import table_names

from .findings import Told
from .looking import Look, finding

# One that is being built is not valid yet.
INDEXES: Final = """
SELECT index.relname::text, link.indisvalid AND link.indisready
       OR EXISTS (SELECT FROM pg_stat_progress_create_index AS build WHERE build.index_relid = index.oid)
  FROM unnest(%(tables)s::text[]) AS wanted (name)
       JOIN pg_index AS link ON link.indrelid = to_regclass(wanted.name)
       JOIN pg_class AS index ON index.oid = link.indexrelid
"""


def indexes(look: Look) -> Told:
    """Compare the indexes with those of the models, where all migrations are applied."""
    valid = dict(look.ask(INDEXES, tables=table_names()))
    found = [finding("index_invalid", "not valid", name) for name, well in sorted(valid.items()) if not well]
    if not look.all_migrated:
        return Told(f"{len(valid)} indexes; which are missing is not told before all migrations are applied", found)
    found += [finding("index_missing", "not there", name) for name in expected_indexes() if name not in valid]
    return Told(f"{len(valid)} indexes", found)


def expected_indexes() -> list[str]:
    """Return the names of the indexes and unique constraints of the models."""
    names = set()
    for model in apps.get_app_config("jobqueue").get_models():
        if model._meta.managed and model._meta.db_table.startswith("jobqueue_"):
            names |= {index.name for index in model._meta.indexes}
            names |= {each.name for each in model._meta.constraints if isinstance(each, UniqueConstraint)}
    return sorted(names)
