"""Commands, one file each, and what they share; `cli.py` has the small ones and registers these.

Nothing but typer and the standard library is imported at module level.
"""
