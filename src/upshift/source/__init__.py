"""Where a server's source comes from, and proof that it is what it says."""
