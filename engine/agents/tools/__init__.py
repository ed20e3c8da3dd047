"""Ready-made tools."""

from .bash import BashTool, create_bash_tool
from .diff import Previews, preview_of
from .edit import EditTool
from .glob import GlobTool
from .grep import GrepTool
from .read import ReadTool
from .web.fetch import WebFetchTool, create_web_fetch_tool
from .write import WriteTool

__all__ = [
    "BashTool",
    "EditTool",
    "GlobTool",
    "GrepTool",
    "Previews",
    "ReadTool",
    "WebFetchTool",
    "WriteTool",
    "create_bash_tool",
    "create_web_fetch_tool",
    "preview_of",
]
