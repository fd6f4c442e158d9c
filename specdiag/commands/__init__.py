"""Commands, one file each, and what they share; `lazy.py` has the list of them.

Nothing but typer and the standard library is imported at module level.
"""
