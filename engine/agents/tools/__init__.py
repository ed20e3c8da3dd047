"""Ready-made tools."""

from .bash import BashTool
from .web_fetch import WebFetchTool, create_web_fetch_tool

__all__ = ["BashTool", "WebFetchTool", "create_web_fetch_tool"]
