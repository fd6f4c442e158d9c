"""Find out why speculative decoding is slow or wrong, from its logs and traces."""

__version__ = "0.1.0"
