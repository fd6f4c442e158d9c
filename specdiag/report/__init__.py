"""A diagnosis as text for people and for programs."""
