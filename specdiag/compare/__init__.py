"""Two runs side by side, honestly: what differs, by how much, and how sure that is.

Each quantity is a ratio of two sums over units: requests, or blocks of neighbouring rows where
nothing says which request a row belongs to. A change is the logarithm of B over A, its error comes
from how units differ, and pairs of the same prompt take the spread of texts out of it.
"""

from specdiag.compare.comparison import compare_all

__all__ = ["compare_all"]
