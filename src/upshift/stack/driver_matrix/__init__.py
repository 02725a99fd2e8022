"""Real drivers, each at its defaults and at settings that cost or save round trips, counted by the proxy."""
