"""Decisions made by operators in a chat, with the buttons of messages about requests."""
