"""Logs with known content: a model of a server, and writers that print what it does as each version would.

The model is physics, not statistics of samples: a request commits its accepted drafts and the
target's own token in every step, a step takes as long as its rows, contexts and drafts make it,
the pool holds so many tokens. A sick server is a healthy one with another figure (`Server.but`),
so that every consequence of it is in the log, too. The same server gives the same bytes.

The shapes of lines were taken from descriptions of the servers' sources, never from parsers/*.toml:
what is composed here tests those files.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

CHAINS = ("EAGLE", "EAGLE3", "STANDALONE", "NEXTN")  # they draft step by step


@dataclass(frozen=True)
class Server:
    """One life of a server and its traffic. Times are milliseconds where not said otherwise."""

    engine: str = "sglang"  # sglang, vllm, llamacpp
    version: str = "0.5.12"
    seed: int = 0
    start: datetime = datetime(2026, 6, 1, 9, 0, 0)
    # What it is asked to run
    model: str = "example/target-8b"
    draft: str | None = "example/target-8b-drafter"
    algorithm: str = "EAGLE3"
    drafts: int = 3  # proposed a step: the length of a chain, the nodes of a tree
    depth: int = 0  # of a tree; 0: a chain
    top_k: int = 1
    page_size: int = 1
    tp: int = 1
    dp: int = 1
    arguments: tuple[tuple[str, Any], ...] = ()  # further ones, or others
    # How well it drafts: the chance of the first draft, and what is left of it from one to the next
    accept: float = 0.80
    fade: float = 0.93
    siblings: float = 0.0  # how much of a miss a tree's other candidates catch
    spread: float = 0.12  # of texts: some are easier than others
    # What a step costs
    base: float = 7.0
    row: float = 0.02  # a verified row
    context: float = 0.012  # a thousand tokens of context
    drafting: float = 0.4  # a draft step of the drafter
    noise: float = 0.03
    prefill_per_s: float = 12_000.0
    chunk: int = 8192
    # What it has room for
    pool: int = 300_000
    max_running: int = 48
    captured: int = 48  # the largest batch with a graph
    slots: int = 0  # states of a recurrent (hybrid) target, each request takes one
    window: int = 0  # of a target with sliding layers
    # Traffic: phases of so many clients that send so many requests, each when its last is answered
    traffic: tuple[tuple[int, int], ...] = ((4, 24),)
    prompt: tuple[int, int] = (200, 1200)
    output: tuple[int, int] = (200, 500)
    cached: float = 0.0  # share of a prompt that the prefix cache has
    think: float = 0.2  # seconds until a client sends its next
    pause: float = 3.0  # seconds between phases
    share: tuple[float, ...] = ()  # of the clients, by data-parallel rank
    interval: int = 40  # forwards between two decode lines
    # What is wrong with it
    lost: float = 0.0  # share of the accept length, everywhere
    kept: float = 1.0  # share of the accepted drafts
    decay: float = 0.0  # the same at 32,000 tokens of context, less where it is shorter
    dead: tuple[int, int] = (
        99,
        0,
    )  # no draft from this position on, past so many tokens of context
    spells: tuple[tuple[float, float], ...] = ()  # seconds in which nothing is accepted: from, to
    perfect: float = 0.0  # how much of what is missing to full acceptance is not missing
    idle_from: int = 0  # running requests from which on nothing is drafted
    slow: float = 1.0  # every step
    exponent: float = 1.0  # of the context's cost
    ageing: float = 0.0  # growth of the step per minute of uptime
    eager: float = 1.0  # a step without a graph
    graphs: float = 1.0  # share of the windows with one
    scar: float = 1.0  # every step after the first retraction
    silent: bool = False  # speculation is configured, and not one figure of it is printed
    counter: int = 0  # what a tree build prints as accepted depth, if not the depth
    commits: float = 1.0  # what it prints as commit length, as a share of the true one
    clock: float = 1.0  # what it prints as step time, as a share of the true one
    loads: tuple[str, ...] = ()  # lines in the start, after the weights of the drafter
    says: tuple[tuple[float, str], ...] = ()  # lines while it serves: second, text
    dies: tuple[str, tuple[str, ...]] | None = (
        None  # where (weights, draft, capture, 12.5), and how
    )
    hang: tuple[float, float] | None = None  # no step from this second on, for so many

    def but(self, **changes: Any) -> Server:
        """The same server, with other figures."""
        return dataclasses.replace(self, **changes)

    @property
    def speculates(self) -> bool:
        return self.algorithm != "NONE"

    @property
    def tree(self) -> bool:
        return self.depth > 0

    @property
    def width(self) -> int:
        """Rows that a request has in a verification."""
        return self.drafts + 1 if self.speculates else 1

    def survival(self, text: float, ctx: float, uptime: float, running: int) -> list[float]:
        """The chance that a step accepts at least k drafts, k = 1, 2, ..."""
        if not self.speculates or (self.idle_from and running >= self.idle_from):
            return []
        if any(low <= uptime < high for low, high in self.spells):
            return []
        alive, shares = 1.0, []
        for position in range(self.depth or self.drafts):
            chance = (self.accept * self.fade**position) ** text
            chance += self.siblings * (1 - chance)
            alive *= chance + self.perfect * (1 - chance)
            shares.append(alive * self.kept)
        lost = self.lost + self.decay * min(1.0, max(0.0, math.log(ctx / 500) / math.log(64)))
        if lost:
            mean = sum(shares)
            kept = max(0.0, (1 - lost) * (1 + mean) - 1) / mean
            shares = [share * kept for share in shares]
        if ctx >= self.dead[1]:
            shares = shares[: self.dead[0]]
        return shares

    def step(self, contexts: list[int], uptime: float, scarred: bool, rng: random.Random) -> float:
        """Milliseconds of a step."""
        running = len(contexts)
        drafting = self.speculates and not (self.idle_from and running >= self.idle_from)
        ms = self.base + self.row * running * (self.width if drafting else 1)
        ms += self.context * sum((ctx / 1000) ** self.exponent for ctx in contexts)
        if drafting:
            ms += self.drafting * (self.drafts if self.algorithm in CHAINS else 2)
        if running > self.captured:
            ms *= self.eager
        ms *= self.slow * (1 + self.ageing * uptime / 60) * (self.scar if scarred else 1)
        return ms * max(0.5, rng.gauss(1, self.noise))


@dataclass
class Request:
    """A request on its way."""

    number: int
    prompt: int
    cached: int
    output: int  # how many tokens it will have
    text: float
    sent: float
    asked: int = 0  # at most
    ctx: int = 0
    made: int = 0
    verifies: int = 0
    proposed: int = 0
    accepted: list[int] = field(default_factory=list)  # [k]: steps that accepted k drafts
    shares: list[float] = field(default_factory=list)  # its survival, anew every few steps
    first: float = 0.0
    retractions: int = 0
    client: int = 0


@dataclass(frozen=True)
class Record:
    """Something that a log tells of: when, by which rank, what, and its figures."""

    second: float  # since the first line
    kind: str
    rank: int = 0
    facts: dict[str, Any] = field(default_factory=dict)


class Window:
    """What was counted since the last report."""

    def __init__(self, second: float) -> None:
        self.since = second
        self.forwards = self.drafted = self.prompts = 0
        self.accepted = [0] * 64  # [k]: verifications that accepted k drafts

    def figures(self) -> dict[str, Any]:
        verifies = sum(self.accepted)
        reached = [sum(self.accepted[position:]) for position in range(1, 33)]  # at least so many
        return {
            "verifies": verifies, "committed": verifies + sum(reached), "drafted": self.drafted,
            "positions": reached, "prompts": self.prompts, "forwards": self.forwards,
        }  # fmt: skip


READY = 38.0  # seconds from the first line until it serves


def life(server: Server) -> list[Record]:
    """All that happens, in order."""
    shares = server.share or (1 / server.dp,) * server.dp
    parts = [_scheduler(server, rank, share) for rank, share in enumerate(shares)]
    return list(heapq.merge(*parts, key=lambda record: record.second))


def _scheduler(server: Server, rank: int, share: float) -> Iterator[Record]:
    """One data-parallel rank with its own clients, pool and queue."""
    rng = random.Random(zlib.crc32(f"{server.seed}/{rank}".encode()))
    writer = random.Random(
        zlib.crc32(f"{server.seed}/{rank}/prompts".encode())
    )  # the same for every arm
    now, number, scarred, forward = READY, 0, False, 0
    window, reported = Window(READY - 25), READY  # the clock runs since the scheduler was built
    said = sorted(server.says) if rank == 0 else []
    ratio, graph_debt = 0.3, 0.0
    ends = server.dies and server.dies[0].replace(".", "").isdigit() and float(server.dies[0])
    hang = server.hang

    def report(queue: list[Request], running: list[Request]) -> Record:
        nonlocal window, reported, graph_debt
        graph_debt += server.graphs
        graph = graph_debt >= 1 - 1e-9 and len(running) <= server.captured
        graph_debt -= graph_debt >= 1 - 1e-9
        facts = {
            "running": len(running), "tokens": sum(one.ctx for one in running), "queue": len(queue),
            "graph": graph, "seconds": now - window.since, "forward": forward,
            "ctx": sum(one.ctx for one in running) / max(1, len(running)), **window.figures(),
        }  # fmt: skip
        window, reported = Window(now), now
        return Record(now, "decode", rank, facts)

    for clients, requests in server.traffic:
        clients, requests = max(1, round(clients * share)), max(1, round(requests * share))
        coming = [(now + 0.02 * client, client) for client in range(clients)]
        heapq.heapify(coming)
        queue: list[Request] = []
        running: list[Request] = []
        while requests or queue or running:
            while said and now - READY >= said[0][0]:
                yield Record(now, "said", rank, {"text": said.pop(0)[1]})
            if ends and now - READY >= ends:
                return
            if hang and now - READY >= hang[0]:
                now, hang = now + hang[1], None
            while requests and coming and coming[0][0] <= now:
                _, client = heapq.heappop(coming)
                low, high = (math.log(edge) for edge in server.prompt)
                prompt = round(math.exp(writer.uniform(low, high)))
                output, text = (
                    writer.randint(*server.output),
                    math.exp(writer.gauss(0, server.spread)),
                )
                cached = round(prompt * min(0.95, writer.uniform(0.5, 1.5) * server.cached))
                number, requests = number + 1, requests - 1
                name = number * server.dp + rank
                queue.append(Request(name, prompt, cached, output, text, now, client=client))
            used = sum(one.ctx for one in running)
            room = min(server.max_running, server.slots or server.max_running)
            while queue and len(running) < room:
                one = queue[0]
                held = sum(two.output - two.made for two in running) * ratio
                if running and used + held + one.prompt + ratio * one.output > server.pool:
                    break
                queue.pop(0)
                new = max(1, one.prompt - one.cached)
                for part in range(0, new, server.chunk):
                    tokens = min(server.chunk, new - part)
                    seconds = 0.004 + tokens / server.prefill_per_s
                    now += seconds
                    cached = one.cached if part == 0 else 0
                    pending = new - part - tokens + sum(two.prompt - two.cached for two in queue)
                    usage = (used + part + tokens) / server.pool
                    yield Record(now, "prefill", rank, {
                        "new": tokens, "cached": cached, "running": len(running), "queue": len(queue), "usage": usage,
                        "pending": pending, "seconds": seconds, "states": len(running),
                    })  # fmt: skip
                window.prompts += new
                one.ctx = one.prompt
                if not one.made:
                    one.made, one.first, one.ctx = 1, now, one.prompt + 1
                running.append(one)
                used += one.ctx
            if not running:
                if server.engine == "vllm" and coming and coming[0][0] - now > 20:
                    now = reported + 10
                    yield report(queue, running)
                now = max(now, coming[0][0]) if coming else now
                continue
            uptime = now - READY
            seconds = server.step([one.ctx for one in running], uptime, scarred, rng) / 1000
            now, forward, ratio = now + seconds, forward + 1, max(0.25, ratio - 0.002)
            window.forwards += 1
            finished = []
            drafting = server.speculates and not 0 < server.idle_from <= len(running)
            proposed = server.drafts if drafting else 0
            window.drafted += proposed * len(running)
            for one in running:
                if forward % 8 == 0 or not one.verifies or server.idle_from:
                    one.shares = server.survival(one.text, one.ctx, uptime, len(running))
                point, drafts = rng.random(), 0
                for chance in one.shares:
                    if chance < point:
                        break
                    drafts += 1
                window.accepted[drafts] += 1
                one.verifies += 1
                one.proposed += proposed
                while len(one.accepted) <= drafts:
                    one.accepted.append(0)
                one.accepted[drafts] += 1
                one.ctx += drafts + 1
                one.made += drafts + 1
                if one.made >= one.output:
                    finished.append(one)
            if (
                forward % server.interval == 0
                if server.engine == "sglang"
                else now - reported >= 10
            ):
                yield report(queue, running)
            for one in finished:
                running.remove(one)
                yield Record(now, "finished", rank, {"request": one, "tail": one.made - one.output})
                heapq.heappush(coming, (now + server.think * rng.uniform(0.5, 1.5), one.client))
            used = sum(one.ctx for one in running)
            if used > server.pool and len(running) > 1:
                before, out = ratio, []
                while used > 0.97 * server.pool and len(running) > 1:
                    out.append(running.pop())
                    used -= out[-1].ctx
                gained = sum(one.ctx for one in out)
                ratio, scarred = min(1.0, 0.85 + 0.15 * rng.random()), True
                for one in out:
                    one.prompt, one.cached, one.retractions = one.ctx, 0, one.retractions + 1
                    queue.insert(0, one)
                yield Record(
                    now,
                    "retracted",
                    rank,
                    {"number": len(out), "gained": gained, "before": before, "after": ratio},
                )
        now += server.pause


def stamp(server: Server, second: float) -> datetime:
    return server.start + timedelta(seconds=second)
