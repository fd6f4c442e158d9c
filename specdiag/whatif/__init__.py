"""What a traced run says about other budgets, other top-k caps, the chain, and no speculation.

Best-first order makes every smaller budget a prefix of the traced tree, so the accepted depth under
each of them is exact at every start that the run visited. A run of that budget would visit other
starts. Where its trees cannot hold the longest accepted path, many of these lie inside of easy
text: such predictions are marked, and of the bundled pairs up to 5 % too low; from larger budgets
on they are within 2 %. Where a run of the budget is given, too, its own commit length stands beside
them. Costs are measured: they come from runs of the same model at other budgets, and are not known
beyond these.

`whatif.sql` walks the steps again and makes the tables that are asked here, `chain.sql` those about
less than the traced tree.
"""

from specdiag.whatif.ask import ask

__all__ = ["ask"]
