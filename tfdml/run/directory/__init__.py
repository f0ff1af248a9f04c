"""The files of a run: written while it trains, and read again."""
