"""The session log: its writer, and the audit that CI runs."""
