"""Which rules run: those that the user selects, by name or by family, less those to ignore.

A name says more than a family: `select = ["tree"], ignore = ["tree_below_chain"]` runs the others
of the family, and `select = ["tree_below_chain"], ignore = ["tree"]` that one alone. What is given
on the command line takes the place of what the file says of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specdiag.errors import SpecdiagError, nearest
from specdiag.header import Rule


@dataclass(frozen=True)
class Selection:
    """Names of rules and families. Without any in `select`, all are selected."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def listed(texts: Iterable[str]) -> tuple[str, ...]:
    """The names in texts that may be lists with commas, each once."""
    names = (name.strip() for text in texts for name in text.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def above(file: Selection, given: Selection) -> Selection:
    """What options say on top of a file: their `select` replaces its own, their `ignore` adds.

    Raises SpecdiagError where one of the two contradicts itself.
    """
    for one, where in ((file, "select and ignore"), (given, "--select and --ignore")):
        if both := sorted(set(one.select) & set(one.ignore)):
            raise SpecdiagError(
                f"{both[0]} is selected and ignored", where, "take it out of one of the two"
            )
    select = given.select or tuple(n for n in file.select if n not in given.ignore)
    if file.select and not select:
        raise SpecdiagError(
            "no rule is left to run", "--ignore", "select others, or ignore fewer"
        )  # fmt: skip
    ignore = tuple(n for n in file.ignore if n not in given.select)
    return Selection(select, tuple(dict.fromkeys((*ignore, *given.ignore))))


def choose(rules: Sequence[Rule], selection: Selection, require: Iterable[str] = ()) -> list[Rule]:
    """The rules that run, in their order.

    Raises SpecdiagError for a name that is none, when nothing is left, and when a rule is not
    selected that must be decided.
    """
    for option, names in (("--select", selection.select), ("--ignore", selection.ignore)):
        for name in names:
            known(name, rules, option)
    chosen = [rule for rule in rules if _runs(rule, selection)]
    if rules and not chosen:
        raise SpecdiagError(
            "no rule is left to run", "--select and --ignore", "select others, or ignore fewer"
        )
    out = {rule.name for rule in rules} - {rule.name for rule in chosen}
    for name in require:
        if name in out:
            raise SpecdiagError(
                f"rule {name} is required, and is not selected", "--require",
                "select it, or require it no more",
            )  # fmt: skip
    return chosen


def known(name: str, rules: Sequence[Rule], where: str) -> None:
    """Raises SpecdiagError, with the nearest name, where no rule and no family is called so."""
    names = [rule.name for rule in rules]
    families = sorted({rule.family for rule in rules if rule.family})
    if name not in names and name not in families:
        help = f"families: {', '.join(families)}; the rules are listed by `specdiag rules`"
        raise SpecdiagError(
            f"no rule and no family is called {name}", where,
            nearest(name, [*families, *names], help),
        )  # fmt: skip


def _runs(rule: Rule, selection: Selection) -> bool:
    select, ignore = selection.select, selection.ignore
    if rule.name in ignore or rule.name in select:
        return rule.name not in ignore
    return rule.family not in ignore and (not select or rule.family in select)
