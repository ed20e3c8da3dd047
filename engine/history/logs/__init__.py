"""Logs of lines beside a journal, for what is part of no session's record: freezes, passkeys."""
