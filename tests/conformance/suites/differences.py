"""What differs on purpose, with the argument: the only failures that `make test-conformance` forgives."""

_IMMEDIATE_CANNOT = "asserts that Immediate cannot do it; our backend, put in its place, can"
_TABLE = "writes to Dummy's result in memory; our results are read from a table, which that does not change"

#: Of Django's tests, pointed at our backend: test → why it fails.
REPOINTED = {
    "ImmediateBackendTestCase.test_cannot_get_result": _IMMEDIATE_CANNOT,
    "ImmediateBackendTestCase.test_cannot_refresh_result": _IMMEDIATE_CANNOT,
    "ImmediateBackendTestCase.test_cannot_pass_run_after": _IMMEDIATE_CANNOT,
    "ImmediateBackendTestCase.test_throws_keyboard_interrupt": (
        "Immediate lets KeyboardInterrupt out, since somebody sits before it; a worker goes on, and the task has FAILED"
    ),
    "DummyBackendTestCase.test_refresh_result": _TABLE,
    "DummyBackendTestCase.test_refresh_result_async": _TABLE,
}

_ROW = "makes or changes a row of django-tasks-db's own table, by columns that ours has not"
_OPTION = "checks an option of its command db_worker; ours has others (docs/commands.md, docs/worker.md)"
_ID = "is about an option for the kind of UUID that is the id; here an id is the job's number"
_WORKER, _BACKEND = "DatabaseBackendWorkerTestCase", "DatabaseBackendTestCase"

#: Of django-tasks-db's tests: test → why it fails.
TASKS_DB: dict[str, str] = {
    **{
        f"{_BACKEND}.test_{name}": _ID
        for name in (*("custom_id_function", "unknown_id_function", "postgres_db_id_function"),)
    },
    **{
        f"{_BACKEND}.test_{name}": _ROW
        for name in (
            *("invalid_task_path", "missing_task_path", "task_name", "priority_range_check"),
            *("refresh_result", "refresh_result_async", "run_after_null_0016_migration"),
        )
    },
    **{f"{_WORKER}.test_{name}": _ROW for name in ("invalid_task_path", "missing_task_path", "task_import_string")},
    **{
        f"{_WORKER}.test_{name}": _OPTION
        for name in (
            *("empty_worker_id", "too_long_worker_id", "unknown_backend", "incorrect_backend"),
            *("negative_interval", "infinite_interval", "fractional_interval", "zero_interval"),
            *("negative_max_tasks", "zero_max_tasks", "exclude_queues_requires_processing_all_queues"),
        )
    },
    f"{_BACKEND}.test_database_backend_app_missing": "the hint names our app, jobqueue, as it should",
    f"{_BACKEND}.test_index_scan_for_ready": "wants an index of its own table; the plans of ours are in tests/plans",
    f"{_WORKER}.test_verbose_logging": "compares what its command prints",
    f"{_WORKER}.test_complex_return_value": (
        "the task has FAILED with TypeError here, too; the text is that of Django's normalize_json, 'Unsupported type'"
    ),
    f"{_WORKER}.test_run_after_priority": (
        "there a task without run_after comes behind all others of its priority; here it is due since it was enqueued"
    ),
}

#: Its classes that are not run: class → why.
TASKS_DB_LEFT_OUT = {
    "DatabaseTaskResultTestCase": "7 tests of how it locks rows of its own table; ours are in tests/races",
    "ConnectionExclusiveTranscationTestCase": "1 test of its transactions on SQLite, which is no database of ours",
    "DatabaseBackendPruneTaskResultsTestCase": "12 tests of its command's options; retention is a setting here",
    "DatabaseWorkerProcessTestCase": (
        "8 tests of its command's processes and output; the kit's crash checks ask the same of real workers of ours. "
        "Its test_kill wants the task of a killed worker to stay RUNNING: ours must not"
    ),
    "DBTaskResultOrderingTestCase": "3 tests of the order of its own table",
    "AdminTestCase": "2 tests of its admin page",
}
