"""Integrity of a journal: hash chain, signatures, verification, export, import, pruning."""
