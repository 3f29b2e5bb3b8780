"""Where an agent's commands run: one protocol, several kinds, one conformance test for all."""

from .make import open_sandbox

__all__ = ["open_sandbox"]
