"""What takes time, memory or bytes: each module a command that measures, but for its workers and what they share."""
