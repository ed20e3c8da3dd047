"""What a shell command runs (G-51): every simple command in it, however it is written or wrapped."""

from .reader import Reading, Shell, SimpleCommand, read, views

__all__ = ["Reading", "Shell", "SimpleCommand", "read", "views"]
