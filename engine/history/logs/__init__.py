"""Logs of lines beside a journal, for what no session's record can hold: freezes, passkeys."""
