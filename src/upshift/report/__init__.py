"""From a run's results to what people and machines read."""
