"""The shell: a persistent bash for commands, and terminals of their own for long jobs."""

from .job import Job
from .tool import Shell

__all__ = ["Job", "Shell"]
