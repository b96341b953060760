-- Tell which of these budgets are spent in the window of now, as maintenance last saw it.
-- Params:  names text[], amounts numeric[], units text[] (by the settings of whoever asks: a raised budget counts at once)
-- Returns: (name, spent, window end) of each, the one that resumes last first
-- Locks:   none
-- Index:   primary key
SELECT budget.name, budget.spent, budget.window_end
  FROM unnest(%(names)s::text[], %(amounts)s::numeric[], %(units)s::text[]) AS given (name, amount, unit)
  JOIN jobqueue_budget AS budget USING (name)
 WHERE budget.spent >= given.amount AND budget.unit = given.unit AND budget.window_end > statement_timestamp()
 ORDER BY budget.window_end DESC, budget.name
