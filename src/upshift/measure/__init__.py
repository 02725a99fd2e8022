"""Arms measured against each other: trials, slices, intervals, verdicts."""
