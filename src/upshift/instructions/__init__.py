"""Counts what a server executes for a query: exact figures, where times are noisy."""
