"""A conformance kit for backends of django.tasks: any of them, not only ours.

    pytest --pyargs jobqueue.testing.conformance --tasks-backend=DOTTED.PATH --tasks-drain="manage.py …"

Nothing here needs jobqueue's app or tables, only the tasks API and pytest (``pip install 'jobqueue[test]'``). What is
checked is in checks/, one function a check; its docstring is the sentence of the contract. More: docs/conformance.md.
"""
