"""What a trace means: pure functions from a Trace to nesting, attribution, runs and tables."""
