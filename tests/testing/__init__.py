"""run_once() and drain(), as a project would use them in its own tests."""
