"""What a person sees of a Profile."""
