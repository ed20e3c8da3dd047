"""Agents as steps of a flow."""
