"""Inspection of shell commands (G-51): every simple command in one, however it is written or wrapped."""

from .command_reader import CommandReading, Shell, SimpleCommand, read, views

__all__ = ["CommandReading", "Shell", "SimpleCommand", "read", "views"]
