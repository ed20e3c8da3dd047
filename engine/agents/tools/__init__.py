"""Ready-made tools.

Names are imported on first use: a session with only a tool for plans loads no other tool.
"""

from typing import TYPE_CHECKING

from ...core.lazy_names import lazy

if TYPE_CHECKING:
    from .bash import BashTool, create_bash_tool
    from .diff import Previews, preview_of
    from .edit import EditTool
    from .glob import GlobTool
    from .grep import GrepTool
    from .read import ReadTool
    from .web.fetch import WebFetchTool, create_web_fetch_tool
    from .write import WriteTool

_HOMES = {
    "BashTool": "bash",
    "EditTool": "edit",
    "GlobTool": "glob",
    "GrepTool": "grep",
    "Previews": "diff",
    "ReadTool": "read",
    "WebFetchTool": "web.fetch",
    "WriteTool": "write",
    "create_bash_tool": "bash",
    "create_web_fetch_tool": "web.fetch",
    "preview_of": "diff",
}

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

__getattr__, __dir__ = lazy(__name__, _HOMES)
