"""What is wrong with a running server's configuration: facts, rules over them, and how to measure what a rule found."""
