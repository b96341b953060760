"""The guards of orders to workers."""

from .guard import Guard
from .words import NEVER_INLINED

ORDERS = "storage/test_orders.py"
LOCKED = f"{ORDERS}::test_a_locked_order_is_left_for_the_next_time"
FORGOTTEN = f"{ORDERS}::test_so_many_are_forgotten_at_a_time"

GUARDS = [
    Guard(
        "answer_orders",
        "worker",
        "{{AND worker_id = %(worker_id)s}}",
        f"{ORDERS}::test_another_workers_order_is_not_answered",
    ),
    Guard("answer_orders", "once", "{{AND answered_at IS NULL}}", f"{ORDERS}::test_an_order_is_answered_once"),
    Guard("answer_orders", "skip locked", "UPDATE {{SKIP LOCKED}}", LOCKED),
    Guard("answer_orders", "lock", "{{FOR NO KEY UPDATE SKIP LOCKED}}", LOCKED),
    Guard("answer_orders", "fence", "mine AS {{MATERIALIZED}}", LOCKED, behind="lock", why=NEVER_INLINED),
    Guard(
        "prune_orders",
        "age",
        "{{WHERE oldest.asked_at < statement_timestamp() - %(age)s::interval}}",
        f"{ORDERS}::test_orders_are_forgotten_after_a_day_answered_or_not",
    ),
    Guard("prune_orders", "limit", "{{LIMIT %(take)s}}", FORGOTTEN),
    Guard("prune_orders", "skip locked", "UPDATE {{SKIP LOCKED}}", LOCKED),
    Guard("prune_orders", "lock", "{{FOR UPDATE SKIP LOCKED}}", LOCKED),
    Guard("prune_orders", "fence", "old AS {{MATERIALIZED}}", LOCKED, behind="lock", why=NEVER_INLINED),
]
