"""The stages of the pipeline: what each takes, what it makes, and under which key its result is kept."""
