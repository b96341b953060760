"""The guards of the hosts that webhooks go to."""

from .guard import Guard
from .words import NEVER_INLINED

HOSTS = "outbox/test_hosts.py"

GUARDS = [
    Guard(
        "take_host",
        "left alone",
        "WHERE {{(host.open_until IS NULL OR host.open_until <= statement_timestamp()) AND}} (SELECT count(*)",
        f"{HOSTS}::test_five_failures_in_a_row_have_the_host_left_alone_for_a_minute",
    ),
    Guard(
        "take_host",
        "most at a time",
        "< {{CASE WHEN host.failures >= 5 THEN 1 ELSE %(most)s::int END~~1000000}}",
        f"{HOSTS}::test_so_many_requests_at_a_time_and_no_more",
    ),
    Guard(
        "take_host",
        "one that tries",
        "CASE WHEN host.failures >= {{5~~1000000}} THEN 1",
        f"{HOSTS}::test_after_the_break_one_request_at_a_time_tries_it",
    ),
    Guard(
        "take_host",
        "time-out",
        "FROM unnest(host.busy_until) AS until {{WHERE until > statement_timestamp()}}) <",
        f"{HOSTS}::test_a_request_whose_process_was_killed_counts_no_more_after_its_time",
    ),
    Guard(
        "take_host",
        "known host",
        "{{ON CONFLICT (name) DO UPDATE~~ON CONFLICT (busy_until) DO UPDATE}}",
        f"{HOSTS}::test_so_many_requests_at_a_time_and_no_more",
    ),
    Guard(
        "free_host",
        "lock",
        "{{FOR UPDATE}}",
        "races/test_hosts.py",
    ),
    Guard(
        "free_host",
        "fence",
        "held AS {{MATERIALIZED}} (",
        "races/test_hosts.py",
        behind="lock",
        why=NEVER_INLINED,
    ),
    Guard(
        "free_host",
        "others",
        "AND {{held.others = '{}' AND}} COALESCE",
        f"{HOSTS}::test_a_host_that_is_well_has_no_row",
    ),
    Guard(
        "free_host",
        "failures kept",
        "AND {{COALESCE(%(well)s::bool, held.failures = 0)~~true}}",
        f"{HOSTS}::test_five_failures_in_a_row_have_the_host_left_alone_for_a_minute",
    ),
    Guard(
        "free_host",
        "in a row",
        "failures = CASE {{WHEN %(well)s::bool THEN 0}}",
        f"{HOSTS}::test_a_success_forgives_the_failures_while_other_requests_are_under_way",
    ),
    Guard(
        "free_host",
        "begun before",
        "WHEN %(well)s::bool IS NULL OR {{held.open_until > statement_timestamp()~~false}} THEN held.failures",
        f"{HOSTS}::test_failures_of_requests_that_had_begun_before_the_break_do_not_lengthen_it",
    ),
]
