"""Inspection of shell commands (G-51): every simple command in one, however it is written or wrapped."""

from .reader import Reading, Shell, SimpleCommand, read, views

__all__ = ["Reading", "Shell", "SimpleCommand", "read", "views"]
