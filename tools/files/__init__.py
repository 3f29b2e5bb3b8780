"""Tools that read, write, edit, list and search files, all through the sandbox."""

from .edit import EditFile
from .listing import ListDir
from .read import ReadFile
from .search import SearchFiles
from .write import WriteFile

__all__ = ["EditFile", "ListDir", "ReadFile", "SearchFiles", "WriteFile"]
