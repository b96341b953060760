-- Tell what today cost by unit, and how far budgets are spent as maintenance knows it.
-- Params:  zone text (whose day it is), names text[] (of the budgets)
-- Returns: (NULL, unit, amount, NULL, NULL) of each unit, and (name, unit, spent, window start, window end) of each budget that was
--          added up in its window of now
-- Locks:   none
-- Index:   jobqueue_cost_at, primary key of the budgets
-- A day begins on a quarter-hour in every time zone there is, so no folded row lies on both sides of it. Of a month's budget
-- maintenance knows the sum; the exact one of this moment is the page's of costs.
SELECT NULL::text AS name, unit, sum(amount) AS amount, NULL::timestamptz AS window_start, NULL::timestamptz AS window_end
  FROM jobqueue_cost
 WHERE at >= date_trunc('day', statement_timestamp(), %(zone)s::text)
 GROUP BY unit
UNION ALL
SELECT name, unit, spent, window_start, window_end
  FROM jobqueue_budget
 WHERE name = ANY(%(names)s::text[]) AND window_start <= statement_timestamp() AND window_end > statement_timestamp()
