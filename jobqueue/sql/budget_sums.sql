-- Sum what each budget has spent in its window of now: an hour, day or month by the calendar of a time zone.
-- Params:  names text[], job_types text[] (NULL: all), queues text[] (NULL: all), units text[], pers text[] (hour, day, month),
--          edges timestamptz[] (sum from here on where that is later than the start; NULL: from the start), zone text
-- Returns: (name, window start, window end, summed from, the hour that began two hours ago, amount before that hour, amount) of each
-- Locks:   none
-- Index:   jobqueue_cost_at
-- A midnight that the clocks pass twice counts the second time; one that they leave out is the hour that comes instead of it.
-- Windows start on quarter-hours in every time zone there is, so no folded row lies on both sides of a start: sums are exact.
SELECT given.name, opens.at, closes.at, summed.since, settled.at, spent.before_edge, spent.amount
  FROM unnest(%(names)s::text[], %(job_types)s::text[], %(queues)s::text[], %(units)s::text[], %(pers)s::text[],
              %(edges)s::timestamptz[]) AS given (name, job_type, queue, unit, per, edge)
 CROSS JOIN LATERAL (SELECT date_trunc(given.per, statement_timestamp(), %(zone)s::text) AS at) AS latest
 CROSS JOIN LATERAL (
       SELECT CASE WHEN latest.at <= statement_timestamp() THEN latest.at
              ELSE date_trunc(given.per, statement_timestamp() - interval '1 hour', %(zone)s::text)
              END AS at) AS opens
 CROSS JOIN LATERAL (
       SELECT CASE given.per
              WHEN 'hour' THEN opens.at + interval '1 hour' /* by the wall clock one that is set back would be two */
              ELSE (date_trunc(given.per, opens.at AT TIME ZONE %(zone)s::text) + ('1 ' || given.per)::interval)
                   AT TIME ZONE %(zone)s::text
              END AS at) AS closes
 CROSS JOIN LATERAL (SELECT greatest(opens.at, given.edge) AS since) AS summed
 CROSS JOIN LATERAL (SELECT date_trunc('hour', statement_timestamp(), 'UTC') - interval '2 hours' AS at) AS settled
 CROSS JOIN LATERAL (
       SELECT COALESCE(sum(cost.amount), 0) AS amount,
              COALESCE(sum(cost.amount) FILTER (WHERE cost.at < settled.at), 0) AS before_edge
         FROM jobqueue_cost AS cost
        WHERE cost.at >= summed.since AND cost.at < closes.at AND cost.unit = given.unit
          AND (given.job_type IS NULL OR cost.job_type = given.job_type)
          AND (given.queue IS NULL OR cost.queue = given.queue)) AS spent
