"""Decisions that operators take in a chat, by buttons of messages about requests."""
