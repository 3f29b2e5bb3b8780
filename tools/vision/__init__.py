"""Questions about images, put to a model that sees."""

from .query import QueryImages

__all__ = ["QueryImages"]
