"""The exception that ends a job."""


class JobFailed(Exception):
    """A job cannot go on. The message says why, and what to do about it."""
