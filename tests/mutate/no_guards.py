"""What looks like a guard and is none: statement -> (text, reason)."""

NEVER_WAITS = "it steps over locked rows: a statement that waits for none is no half of a deadlock, in whatever order"
FOR_PEOPLE = "what is kept for people to read; nobody else is let in or kept out by it"
COUNTED = "what is counted, which the tests of the statistics show"

NO_GUARDS: dict[str, list[tuple[str, str]]] = {
    "reap_jobs": [("FILTER (WHERE status = 4 /* DEAD */)", COUNTED)],
    "release_jobs": [("progress = CASE WHEN job.cancel_requested_at IS NOT NULL THEN job.progress END", FOR_PEOPLE)],
    "release_strays": [
        ("ORDER BY id", NEVER_WAITS),
        ("progress = CASE WHEN job.cancel_requested_at IS NOT NULL THEN job.progress END", FOR_PEOPLE),
    ],
    "release_stuck_jobs": [
        ("progress = CASE WHEN job.cancel_requested_at IS NOT NULL THEN job.progress END", FOR_PEOPLE)
    ],
    "renew_leases": [("ORDER BY job.id", NEVER_WAITS)],
    "settle_ended": [
        ("FILTER (WHERE status = 4 /* DEAD */)", COUNTED),
        ("sum(CASE WHEN status = 5 /* SCHEDULED */", COUNTED),
    ],
    "write_progress": [("ORDER BY job.id", NEVER_WAITS)],
}
