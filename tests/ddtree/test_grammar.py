"""Grammars: what they allow, and that every mode writes what plain decoding with them writes."""

from __future__ import annotations

import random
import re

import pytest

torch = pytest.importorskip("torch", reason="the bundled runtime needs torch")

from specdiag.ddtree import regex  # noqa: E402
from specdiag.ddtree.automaton import Automaton  # noqa: E402
from specdiag.ddtree.decode import Options, Request, decode  # noqa: E402
from specdiag.ddtree.grammar import Regex, along  # noqa: E402
from specdiag.ddtree.tree import Tree  # noqa: E402
from specdiag.ddtree.verify import Sampling  # noqa: E402
from specdiag.errors import SpecdiagError  # noqa: E402

GREEDY = Sampling()
VOCAB = 53  # of the models in conftest
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 ,:"
# Single characters, then pairs: tokens that end inside of another's text.
TEXTS = [None, *(one.encode() for one in ALPHABET), *(one.encode() for one in (
    "ab", "cd", "a1", "b, ", ": ", "12", "34", "e:", "fg", "h ", "10", "ij"))]  # fmt: skip
LIST = r"([a-j]{1,5}: [0-9]{1,3}, )+"  # goes on for as long as there is room
PAIR = r"[a-z]{2,9}: [0-9]{4}"  # has an end of its own


def written(tokens):
    return b"".join(TEXTS[token] or b"?" for token in tokens).decode()


def matches(automaton, text):
    state = automaton.start
    for byte in text:
        state = automaton.move(state, byte)
        if state is None:
            return False
    return automaton.accepts(state)


# Patterns


def pattern(draw, depth):
    atoms = (
        "a",
        "b",
        "[ab]",
        "[^a]",
        ".",
        r"\d",
        r"\w",
        r"\S",
        "é",
        "[é1]",
        r"\n",
        "[a-c-]",
        "[]x]",
    )
    found = ""
    for _ in range(draw.randint(1, 3)):
        inner = depth and draw.random() < 0.4
        other = "|" + pattern(draw, depth - 1) if inner and draw.random() < 0.5 else ""
        found += f"({pattern(draw, depth - 1)}{other})" if inner else draw.choice(atoms)
        found += draw.choice(("", "", "*", "+", "?", "{2}", "{1,2}", "{2,}"))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_patterns_mean_what_they_mean_elsewhere(seed):
    draw = random.Random(seed)
    given = pattern(draw, 2)
    automaton = Automaton(regex.parse(given))
    for _ in range(30):
        text = "".join(draw.choice("abc1é\nx-] ") for _ in range(draw.randint(0, 5)))
        expected = re.fullmatch(given, text, re.ASCII) is not None
        assert matches(automaton, text.encode()) == expected, (given, text)


def test_any_character_is_one_in_utf_8():
    automaton = Automaton(regex.parse("[^a].{2}"))
    assert matches(automaton, "é€😀".encode())
    for broken in (
        b"\xffbc",
        b"\xc0\x80bc",
        "é€".encode() + b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80bc",
    ):
        assert not matches(automaton, broken)


@pytest.mark.parametrize(
    "given",
    ["(", "a)", "[a", "[z-a]", "[a-é]", "[^é]", "a**", "*", "a{2", "a{3,2}", "\\", r"\q", r"[\D]",
     r"\x4", "^a$", "(" * 200, "((a{900}){900}){900}", "(){999999}", "\ud800"],
)  # fmt: skip
def test_what_is_no_pattern_is_said_in_three_lines(given):
    with pytest.raises(SpecdiagError) as caught:
        Automaton(regex.parse(given))
    assert caught.value.where.startswith("grammar") and caught.value.help


# Tokens


def test_a_mask_allows_what_the_pattern_can_go_on_with():
    grammar = Regex(PAIR, TEXTS, VOCAB, stop_ids={0})
    state = grammar.start
    for token in [TEXTS.index(b"ab"), TEXTS.index(b"e:"), TEXTS.index(b" "), TEXTS.index(b"12")]:
        assert grammar.legal(state)[token]
        state = grammar.advance(state, token)
    allowed = grammar.legal(state).nonzero().flatten().tolist()
    assert {TEXTS[one] for one in allowed} == {*(b"%d" % n for n in range(10)), b"12", b"34", b"10"}
    assert grammar.advance(state, TEXTS.index(b"a")) is None
    end = grammar.advance(state, TEXTS.index(b"34"))
    assert grammar.legal(end).nonzero().flatten().tolist() == [0]
    assert grammar.ended(end) and not grammar.ended(state)


def test_a_stop_token_is_allowed_where_the_text_may_end():
    grammar = Regex("a+", TEXTS, VOCAB, stop_ids={0})
    assert not grammar.legal(grammar.start)[0] and grammar.advance(grammar.start, 0) is None
    state = grammar.advance(grammar.start, TEXTS.index(b"a"))
    assert grammar.legal(state)[0] and not grammar.ended(state)
    end = grammar.advance(state, 0)
    assert grammar.ended(end) and grammar.advance(end, 1) is None


def test_every_row_has_the_state_of_its_own_path():
    grammar = Regex(PAIR, TEXTS, VOCAB)
    a, b, colon, e = (TEXTS.index(one) for one in (b"a", b"b", b": ", b"e:"))
    parents = [-1, 0, 0, 1, 1, 3]
    tokens = [a, b, colon, colon, e, a]
    whole = torch.tensor
    tree = Tree(
        whole(tokens), whole(parents), whole([0, 1, 1, 2, 2, 3]), whole([0] * 6), whole([0.0] * 6)
    )
    root = grammar.advance(grammar.start, a)
    two = grammar.advance(root, b)
    assert along(grammar, root, tree) == [
        root, two, None, grammar.advance(two, colon), grammar.advance(two, e), None,
    ]  # fmt: skip


def test_a_pattern_that_no_token_begins_is_refused():
    for given in ("", "Q+", "é"):
        with pytest.raises(SpecdiagError, match="no token begins"):
            Regex(given, TEXTS, VOCAB)


# Decoding


@pytest.fixture(scope="module")
def regexes():
    """The grammar of each pattern."""
    return {pattern: Regex(pattern, TEXTS, VOCAB) for pattern in (LIST, PAIR)}


@pytest.fixture
def run(make_target, make_knowing, autoregressive, regexes):
    """`run(kind, options, pattern, sampling)`: plain results, results in the mode, its steps."""

    def run(kind, options, pattern, sampling=GREEDY, batch=2):
        target = make_target(kind)
        grammar = regexes[pattern]
        requests = [
            Request(f"r{row}", [3 + row, 4, 5, 6 + row], 40 + row, None, sampling, grammar)
            for row in range(batch)
        ]
        expected = autoregressive(kind, requests)
        texts = [[*one.request.prompt, *one.tokens] for one in expected]
        steps = []
        found = decode(target, make_knowing(texts), requests, options, on_step=steps.append)
        return expected, found, steps

    return run


MODES = [
    Options("linear"), Options("shadow_linear", budget=9, top_k=3), Options(budget=4, top_k=2),
    Options(budget=20, top_k=4),
]  # fmt: skip


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.9, 0.9, 5)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("options", MODES, ids=lambda one: f"{one.mode}-{one.budget}")
@pytest.mark.parametrize("pattern", [LIST, PAIR])
def test_text_is_that_of_plain_decoding_with_the_grammar(run, kind, options, pattern, sampling):
    expected, found, steps = run(kind, options, pattern, sampling)
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    assert [one.finish for one in found] == [one.finish for one in expected]
    assert any(len(step.accepted) > 1 for step in steps), "nothing was accepted"
    for one in found:
        if pattern == PAIR:
            assert re.fullmatch(PAIR, written(one.tokens)) and one.finish == "grammar"
        else:
            assert (
                re.fullmatch(rf"{LIST}[a-j]*(: [0-9]*,?)?", written(one.tokens))
                and one.finish == "length"
            )


@pytest.mark.parametrize("options", MODES, ids=lambda one: f"{one.mode}-{one.budget}")
def test_a_record_says_what_is_allowed(run, options):
    _, found, steps = run("hybrid", options, LIST)
    assert len(steps) > 10
    assert all(len(step.legal) == step.nodes + 1 and False not in step.legal for step in steps)
    for step in steps:
        assert all(step.legal[row] for row in step.accepted)
        for row in range(1, step.nodes + 1):  # nothing is said behind what is not said anything of
            assert step.legal[row] is None or step.legal[step.parents[row]]
    assert any(None in step.legal for step in steps), "every draft kept to the grammar"
    assert [step.cut for step in steps if step.finish is None] == [None] * (len(steps) - len(found))


def test_the_end_of_a_grammar_inside_of_a_path_cuts_it(run):
    ends = []
    for options in MODES:
        _, found, steps = run("full", options, PAIR)
        for step in steps:
            if step.finish is not None:
                ends.append(step)
                whole = len(step.emitted) == len(step.accepted)
                assert (step.finish, step.cut) == ("grammar", None if whole else "grammar")
        assert sum(len(step.emitted) for step in steps) == sum(len(one.tokens) - 1 for one in found)
    assert {one.cut for one in ends} == {None, "grammar"}


def test_the_oracle_follows_the_grammar(run):
    _, _, steps = run(
        "sliding", Options(budget=9, top_k=3, detail=frozenset({"oracle", "law"})), LIST
    )
    for step in steps:
        assert step.oracle_tokens == step.emitted
        assert all(gap >= 0 for gap in [*step.gaps, *step.oracle_gaps])


def test_requests_without_a_grammar_say_nothing_of_it(make_target, make_knowing):
    target = make_target("full")
    request = Request("r", [1, 2, 3], 12)
    steps = []
    decode(target, make_knowing([[1, 2, 3] * 9]), [request], Options(), on_step=steps.append)
    assert all(step.legal is None for step in steps)
