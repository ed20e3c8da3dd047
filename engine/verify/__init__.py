"""Verification: what a net can reach."""

from .reach import Reachability, reachable

__all__ = ["Reachability", "reachable"]
