"""What looks like a guard and is none: statement -> (text, reason)."""

NEVER_WAITS = "it steps over locked rows: a statement that waits for none is no half of a deadlock, in whatever order"
FOR_PEOPLE = "what is kept for people to read; nobody else is let in or kept out by it"
COUNTED = "what is counted, which the tests of the statistics show"
NUMBERED = "it numbers groups; any order would do"

NO_GUARDS: dict[str, list[tuple[str, str]]] = {
    "claim_jobs": [("span AS MATERIALIZED", "today's planner joins in this order by itself; the word makes it so")],
    "fold_stats": [
        ("ORDER BY queue_name, type_name, outcome, bucket", NUMBERED),
        ("ORDER BY place) AS place_before", COUNTED),
        ("ORDER BY each) FILTER (WHERE kind = 0)", COUNTED),
        ("ORDER BY each) FILTER (WHERE kind = 1)", COUNTED),
    ],
    "prune_orders": [("ORDER BY id", "the oldest go first; in any order each goes in its time")],
    "reap_jobs": [("FILTER (WHERE status = 4 /* DEAD */)", COUNTED)],
    "release_jobs": [("progress = CASE WHEN job.cancel_requested_at IS NOT NULL THEN job.progress END", FOR_PEOPLE)],
    "release_strays": [
        ("ORDER BY id", NEVER_WAITS),
        ("progress = CASE WHEN job.cancel_requested_at IS NOT NULL THEN job.progress END", FOR_PEOPLE),
    ],
    "release_stuck_jobs": [
        ("job.cancel_requested_at IS NOT NULL OR %(dead)s::bool THEN job.progress END", FOR_PEOPLE),
        ("CASE WHEN status = 4 /* DEAD */ THEN 'marked-dead'", FOR_PEOPLE),
        ("FILTER (WHERE status = 4 /* DEAD */)", COUNTED),
    ],
    "renew_leases": [("LIMIT 1", "a key has one row; the word keeps the planner from joining the tables another way")],
    "take_turn": [
        ("turn AS MATERIALIZED", "a function that locks is volatile: its part of a statement is never inlined anyway"),
        ("ON CONFLICT (name) DO UPDATE", "without it the second turn is an error, not a turn too many"),
    ],
    "settle_ended": [
        ("FILTER (WHERE status = 4 /* DEAD */)", COUNTED),
        ("sum(CASE WHEN status = 5 /* SCHEDULED */", COUNTED),
        ("FILTER (WHERE status <> 5 /* SCHEDULED */)", COUNTED),
    ],
}
