from jobqueue.backends.compat import Task

__all__ = ["Task"]
