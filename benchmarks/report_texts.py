"""The words of docs/benchmarks.md that no result changes."""

from __future__ import annotations

from typing import Final

HEAD: Final = """\
# Benchmarks

<!-- Written by `python -m benchmarks report` from these: change them, not this page.
     {sources} -->

What the queue does on a small machine, with real workers and real clients: beside bare SQL for the same rows, and
beside other queues, on the same server in the same run. Absolute figures belong to the machine below; the ratios
carry over.
"""
NOISE: Final = """\
Medians of {repeats} samples; the sides of each comparison were measured in turn. "Noise" is the largest share of
the processors that programs other than the benchmark and its server took during a sample; samples with more than
15 % were taken again, two of a row at most, and the quietest count.
"""
TABLE: Final = """\
| row | work | must be | is | ours | against | noise |
|---|---|---|---|---|---|---|
"""
SPEED: Final = """
## What must hold beside peers

`make bench BENCH="check speed"` measures this table, each row beside the three peers that were the best at it. A
row does not hold where one of the three could not be measured.

{verdict}

"""
PEERS: Final = """
## Every peer

Each has an environment of its own with pinned versions, a database of its own on the same server, and is run by its
own program: with its defaults, and with the best settings that were found in some hours ("tuned"). Our figures are
those of our defaults. Redis keeps nothing on disk here, so what it acknowledges does not survive a power cut; all
others commit.
"""
ENGINE: Final = """
## Beside bare SQL

`make bench` measures this table: what the server itself does with the same rows, and how much of it is left.

"""
MEASURED: Final = """
## How it is measured

- **Every job runs once, or there is no figure**: each handler marks its job in memory that all processes share. A run
  in which a mark is missing or doubled, or the store disagrees, is an error.
- **A worker** is one run of the peer's own command, and may be several processes: by default ours are a supervisor
  and as many children as there are cores, PgQueuer's and oban's one process. Connections of the peers within Django
  stay open (`CONN_MAX_AGE`), and nobody logs a line a job.
- **A peer's turn** ends with its database dropped: no autovacuum of what it left takes from the next one.
- **A drain** ends no-ops that were enqueued before, from the first handler's start to the last job's end in the
  store. Beside peers it lasts about ten seconds: short runs before it tell how many jobs that takes. A peer that
  takes half as long again is cut there, and its rate is what it did by then.
- **The limit of a drain** is one connection that claims 100 rows, settles them, and so on, prepared, by psycopg, with
  no other work in between. Its table is a copy of `jobqueue_job` with all columns, indexes and storage parameters.
- **Statistics**: the same drain by workers whose settles have the counting cut out of their text, in turn, two drains
  of each kind a sample. The rows are checked: every job is counted on one side, none on the other.
- **Enqueues** are made by processes of their own through each one's public API; INSERT and COPY write the same
  columns.
- **Latency** is read on one clock by both sides: when the call that enqueues has returned, and in the first line of
  the handler. Beside bare SQL ours is enqueued in a transaction block, and its clock starts as soon as that is
  committed, before the worker is told of it.
- **Eight clients** enqueue with NOTIFY on and off in turn. "Asleep" is the worse of workers that the jobs wake and of
  workers that find the queue paused whenever they are woken.
- **Slots**: jobs that sleep have 32 slots ÷ 10 ms as their ideal. Jobs that compute have two bare processes as
  theirs, which run the same steps in turn with the worker.
- **Claims beside a backlog** are made in turn in two databases of one server, 1, 10 and 100 at a time; the worst of
  the three counts. The millions due lie beside the millions finished.
- **The horizon** is a REPEATABLE READ transaction in another session that has read a row and stays open. The claims
  that its p95 is taken from are the worker's own, timed in its process.
- **Isolation**: `python -m benchmarks.inprocess` runs the executor of the children in one process and settles by the
  same SQL, claiming and settling on threads beside it. It exists for this row only.
- **"Retained"** drains beside jobs that were run before; some peers delete those, so that nothing stands beside.
- **Idle**: one worker of each peer, all during the same minute after some jobs: the processor time of its processes,
  and of its connections' server processes beside it.
- **Memory** is read from `/proc` once the worker is idle again after its work: resident for the supervisor, private
  (what no other process shares) for the larger child.
"""
REPEAT: Final = """
## Repeat it

```sh
make bench                                      # beside bare SQL; status 1 when a row falls short
make bench BENCH="check engine --only drain"    # one row
make bench BENCH="latency --json"               # one benchmark, as JSON with every sample
make bench BENCH="check speed"                  # beside the best three peers of each row
make bench BENCH="--peers all --work all"       # every peer; or --peers pgqueuer,huey --work drain --workers 2
```

To write this page anew:

```sh
make bench BENCH="check engine --save benchmarks/results.json"
make bench BENCH="check speed --save benchmarks/speed.json"     # add --merge --only ROW for some rows anew
make bench BENCH="--peers all --work drain --save benchmarks/peers-drain.json"
make bench BENCH="--peers all --work enqueue,bulk --settings default --seconds 2 --save benchmarks/peers-enqueue.json"
make bench BENCH="--peers all --work latency --settings tuned --save benchmarks/peers-latency.json"
.venv/bin/python -m benchmarks report
```

{closing}
"""
CLOSING: Final = """\
They use the server of `DATABASE_URL`, or the checkout's own PostgreSQL, and databases of their own there, which are
dropped again. {took} Peers are installed at their first use into `.bench/` (`make clean` removes it). Those on
Redis need a `redis-server`, which the run starts for itself. Leave the machine alone meanwhile.
"""
