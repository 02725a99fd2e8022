"""The stack, from the client to the engine: evidence from a trace, the budget of a transaction's time, the suspects."""
