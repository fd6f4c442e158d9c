"""What a traced run says about other budgets, other top-k caps, the chain, and no speculation.

Best-first order makes every smaller budget a prefix of the traced tree, so the accepted depth under
each of them is exact at every start that the run visited. A run of that budget would visit other
starts: behind the token that the smaller tree lacks, which is easier than one that the larger
lacks. Of the bundled pair the prediction from a budget of 32 is within 1 % of such runs at 16 and
8, and 2.4 and 3.3 % too low at 4 and 2. How much it is elsewhere is seen where such a run is given,
too. Costs are measured: they come from runs of the same model at other budgets, and are not known
beyond these.

`whatif.sql` walks the steps again and makes the tables that are asked here, `chain.sql` those about
less than the traced tree.
"""

from specdiag.whatif.ask import ask

__all__ = ["ask"]
