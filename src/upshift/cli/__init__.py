"""Commands: presentation, and nothing that another room could use."""
