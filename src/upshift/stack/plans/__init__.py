"""Plans: one canonical tree from each server's own EXPLAIN, what differs between two, and what a plan gives away."""
