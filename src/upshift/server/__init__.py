"""Servers: how each kind is configured, built, initialised, started, asked and stopped."""
