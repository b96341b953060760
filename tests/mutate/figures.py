"""The guards of the statement that deletes old figures: the same for each kind of them."""

from .guard import Guard
from .words import NEVER_INLINED

PRUNED = "storage/test_prune_figures.py"
KEPT = f"{PRUNED}::test_only_folded_rows_and_resolved_incidents_past_the_age_are_deleted"
OLDEST = f"{PRUNED}::test_a_batch_takes_the_oldest_first"
LOCKED = "races/test_figures.py::test_pruning_figures_steps_over_rows_that_are_locked"
AGE = "< statement_timestamp() - %(age)s::interval"
STATEMENTS = {
    table: f"SELECT id FROM jobqueue_{table} WHERE span_seconds > 0 AND at {AGE} ORDER BY at LIMIT %(take)s "
    "FOR UPDATE SKIP LOCKED"
    for table in ("stat", "cost", "counter")
} | {
    "incident": f"SELECT id FROM jobqueue_incident WHERE broken_since {AGE} AND state = 3 /* resolved */ AND "
    f"resolved_at {AGE} ORDER BY broken_since LIMIT %(take)s FOR UPDATE SKIP LOCKED",
}


def of_table(table: str, kind: str, piece: str, tests: str) -> Guard:
    """Return the guard that a piece of the list of one table is."""
    text = STATEMENTS[table]
    assert text.count(piece) == 1
    marked = text.replace(piece, f"{{{{{piece}}}}}")
    return Guard("prune_figures", f"{table}: {kind}", marked, tests)


GUARDS = [
    *(of_table(table, "span", "span_seconds > 0 AND", KEPT) for table in ("stat", "cost", "counter")),
    *(of_table(table, "age", f"AND at {AGE}", KEPT) for table in ("stat", "cost", "counter")),
    of_table("incident", "state", "AND state = 3 /* resolved */", KEPT),
    Guard("prune_figures", "incident: age", f"state = 3 /* resolved */ {{{{AND resolved_at {AGE}}}}}", KEPT),
    Guard(
        "prune_figures",
        "incident: index",
        f"WHERE {{{{broken_since {AGE} AND}}}} state",
        KEPT,
        behind="incident: age",
        why="an incident begins before it is resolved: it narrows what is read, not what is deleted",
    ),
    *(
        of_table(table, "order", f"ORDER BY {'broken_since' if table == 'incident' else 'at'}", OLDEST)
        for table in STATEMENTS
    ),
    *(of_table(table, "take", "LIMIT %(take)s", OLDEST) for table in STATEMENTS),
    *(of_table(table, "skip locked", "SKIP LOCKED", LOCKED) for table in STATEMENTS),
    *(of_table(table, "lock", "FOR UPDATE SKIP LOCKED", LOCKED) for table in STATEMENTS),
    *(
        Guard(
            "prune_figures",
            f"{table}: fence",
            f"old_{table}s AS {{{{MATERIALIZED}}}}",
            LOCKED,
            behind=f"{table}: lock",
            why=NEVER_INLINED,
        )
        for table in STATEMENTS
    ),
]
