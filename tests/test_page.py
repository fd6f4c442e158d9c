"""The HTML page as text: what it carries, how large it may be, and what it owes its reader."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest
from markupsafe import Markup

from specdiag import diagnosis, provenance, source
from specdiag.config import Config
from specdiag.report import html
from specdiag.report import json as as_json
from specdiag.report.html import carried as carrying
from specdiag.report.html import filters, packing, runs

SAMPLES = Path(__file__).parents[1] / "sample_logs"
FOUNDING = SAMPLES / "founding-1-depth-against-commit"


@pytest.fixture(scope="module")
def founding():
    """Founding case 1: its diagnosis and its tables."""
    parsers, rules, _ = diagnosis.definitions([], [])
    return diagnosis.analyze(source.find([str(FOUNDING)]), parsers, rules, {})


@pytest.fixture(scope="module")
def page(founding):
    return html.render(*founding)


def carried(page: str, name: str) -> str:
    """What the script unpacks."""
    (packed,) = re.findall(rf'<script type="text/plain" id="data-{name}">(.*?)</script>', page)
    return gzip.decompress(base64.b64decode(packed)).decode()


def whole(page: str) -> str:
    """The diagnosis as text, put together as page.js does."""
    data = json.loads(carried(page, "diagnosis"))
    lines = [
        f'\n  {{"rule": {data["rules"][rule]}, "run": {run}, {data["said"][what]}}}'
        for rule, order, said in data["results"]
        for run, what in zip(data["orders"][order], said, strict=True)
    ]
    return data["before"] + ",".join(lines) + data["after"]


def test_the_page_carries_its_findings_as_json(founding, page):
    assert whole(page) == as_json.render(founding[0])


def test_the_page_allows_its_own_scripts_and_no_other(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    allowed = set(re.findall(r"sha256-([\w+/=]+)", policy[1].replace("&#43;", "+")))
    code = [*re.findall(r"<script>(.*?)</script>", page, re.S), carried(page, "plotly")]
    hashes = {base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in code}
    assert hashes == allowed
    assert "unsafe-eval" not in policy[1]


def test_the_plotting_library_is_the_one_that_its_notice_names():
    notice = (Path(packing.__file__).parent / "vendor" / "README.md").read_text()
    assert hashlib.sha256(packing.plotly().encode()).hexdigest() in notice
    assert "Licensed under the MIT license" in packing.plotly()[:300]


def test_packing_gives_the_same_for_the_same_and_loses_nothing():
    text = "ä\u2028 </script> \udcff"
    assert packing.pack(text) == packing.pack(text)
    assert gzip.decompress(base64.b64decode(packing.pack(text))).decode() == (
        "ä\u2028 </script> \\udcff"
    )


def test_every_query_in_a_page_can_be_asked(founding):
    found, store = founding
    for rule in found.rules:
        answer = store.db.execute(filters.code(rule.sql, rule.params).unescape())
        assert "run" in [column[0] for column in answer.description]


def test_thresholds_that_the_user_set_are_those_that_the_page_shows():
    parsers, rules, _ = diagnosis.definitions([], [])
    given = {"depth_contradicts_commit": {"tolerance": 0.125}}
    page = html.render(*diagnosis.analyze(source.find([str(FOUNDING)]), parsers, rules, given))
    assert "&gt; 0.125" in page and "$tolerance" not in page


@pytest.mark.parametrize(
    ("value", "sql"), [(1.5, "1.5"), (True, "true"), ("it's \\1", "'it''s \\1'"), ([1, "a"], "[1, 'a']")]
)  # fmt: skip
def test_thresholds_of_every_kind_are_written_as_sql(value, sql):
    assert filters.code("-- title = 1\nSELECT $v", {"v": value}) == Markup.escape(f"SELECT {sql}")


def test_settings_that_differ_stand_side_by_side(page):
    assert re.search(r"<code>[^<]*algorithm</code></th><td>DDTREE</td><td>DFLASH</td>", page)


def test_a_finding_leads_to_the_pictures_that_show_it(page):
    card = re.search(r'id="finding-depth_contradicts_commit-ddtree-b7-k1".*?</article>', page, re.S)
    targets = re.findall(r'href="#(figure-[^"]+)"', card[0])
    assert "figure-depth_against_commit" in targets
    assert all(f'id="{target}"' in page for target in targets)


def test_a_page_never_outgrows_its_cap(founding, page, monkeypatch):
    monkeypatch.setattr(html, "CAP", 200_000)
    small = html.render(*founding)
    assert len(small) < len(page) and len(small) <= 200_000
    assert "Accepted depth contradicts commit length" in small


def life(number: int, sick: bool) -> str:
    """A short life of a server, which contradicts itself if it is sick."""
    lines = [
        "server_args=ServerArgs(model_path='m', speculative_algorithm='DDTREE', log_level='info')",
        "The server is fired up and ready to roll!",
    ]
    commit = 2.0 if sick else 8.0
    for n in range(3):
        lines += [
            "Decode batch. #running-req: 1, #token: 900, token usage: 0.10, "
            f"accept len: {commit:.2f}, cuda graph: True, gen throughput (token/s): 100.00, "
            "#queue-req: 0",
            f"DDTREE metrics: avg_accepted_depth=7.00 avg_accepted_drafts={commit - 1:.2f} "
            f"avg_commit_len={commit:.2f} avg_tree_size=7.00 budget=7 top_k=1 ctx_len=467 "
            f"rounds={80 * (n + 1)}",
        ]
    minute = f"2026-03-{1 + number // 1440:02} {number // 60 % 24:02}:{number % 60:02}"
    return "".join(f"[{minute}:{n:02}] {line}\n" for n, line in enumerate(lines))


@pytest.fixture(scope="module")
def thousand(tmp_path_factory):
    """A log of a thousand lives, every third of them sick: its diagnosis and its tables."""
    path = tmp_path_factory.mktemp("thousand") / "server.log"
    path.write_text("".join(life(number, sick=number % 3 == 0) for number in range(1000)))
    parsers, rules, _ = diagnosis.definitions([], [])
    return diagnosis.analyze(source.find([str(path)]), parsers, rules, {})


def runs_in(text: str) -> set[str]:
    return set(re.findall(r"server(?:#\d+)?(?=[<,])", text))


def test_a_page_of_a_thousand_runs_is_small_and_names_every_one(thousand):
    found, _ = thousand
    sick = {one.run for one in found.findings}
    assert len(found.runs) == 1000 and len(sick) == 334
    page = html.render(*thousand)
    assert len(page.encode()) <= 1_400_000
    assert whole(page) == as_json.render(found)
    table = page[page.index('id="runs"') : page.index('id="findings"')]
    assert runs_in(table) == {run.name for run in found.runs}
    assert sick <= runs_in(page[page.index('id="findings"') : page.index('id="pictures"')])
    rows = re.findall(r'<th scope="row">(server(?:#\d+)?)<', table)
    assert len(rows) == 100 and set(rows) <= sick
    assert "critical</span> 234 runs: " in table and "The other 900 runs by name" in table


def test_of_too_many_runs_the_worst_are_named_and_carried(thousand, monkeypatch):
    found, _ = thousand
    monkeypatch.setattr(runs, "NAMED", 300)
    monkeypatch.setattr(carrying, "MOST", 15_000)
    page = html.render(*thousand)
    data = json.loads(whole(page))
    assert len(carried(page, "diagnosis")) and 10 < len(data["runs"]) < 1000
    names = {run["run"] for run in data["runs"]}
    assert names <= {one.run for one in found.findings}
    assert {one["run"] for one in data["findings"]} == names
    assert f"Save JSON of {len(names)} runs" in page
    assert "each rule says of it is in what <code>--output json=PATH</code> writes" in page
    table = page[page.index('id="runs"') : page.index('id="findings"')]
    assert len(runs_in(table)) < 405 and " and 600 more" in table


def test_without_tables_there_are_no_pictures_and_it_is_said(founding, page):
    told = "it has no pictures"
    bare = html.render(founding[0])
    assert told in bare and 'class="picture' not in bare
    assert told not in page and 'class="picture' in page


def test_the_foot_says_where_the_page_comes_from(founding):
    found, store = founding
    settings = Config(params={"hung": {"silence": 3}}, require=["depth_contradicts_commit"])
    origin = provenance.collect(store.readings, settings, ["analyze", "a b"], "plain")
    page = html.render(found, store, origin)
    foot = page[page.index("<footer>") :]
    assert "specdiag analyze &#39;a b&#39;" in foot
    for told in ("hung.silence = 3", "baseline plain", "requires depth_contradicts_commit"):
        assert told in foot
    for file in FOUNDING.iterdir():
        assert hashlib.sha256(file.read_bytes()).hexdigest()[:12] in page


def test_pictures_carry_no_more_than_they_may(page):
    for one in json.loads(carried(page, "figures")):
        assert sum(len(series["x"]) for series in one["series"]) <= 12_500
