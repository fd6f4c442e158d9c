"""Prove traced steps with dicts, and time that alone: what `specdiag` proves of the same columns.

From the root to the child that carries what the target chose, until there is none; the tree is a
tree; the counters are those of the path; the next step goes on where this one ended.
"""

import itertools
import json
import sys
import time

STEPS = 20_000

with open(sys.argv[1], encoding="utf-8") as trace:
    records = [json.loads(line) for line in itertools.islice(trace, STEPS)]
start = time.process_time()
right = 0
before: dict[int, tuple[int, int]] = {}  # request -> context and root of its next step
for record in records:
    parents, tokens = record["parents"], record["node_tokens"]
    children: dict[int, dict[int, int]] = {}
    proved = parents[0] == -1
    for node, (parent, token) in enumerate(zip(parents, tokens, strict=True)):
        proved &= parent < node
        below = children.setdefault(parent, {})
        proved &= token not in below
        below[token] = node
    targets, node, path = record["target_predict"], 0, [0]
    while (after := children.get(node, {}).get(targets[node])) is not None:
        path.append(after)
        node = after
    proved &= path == record["accepted_path"]
    proved &= record["accepted_drafts"] == len(path) - 1 and record["commit_len"] == len(path)
    proved &= record["tree_size"] in (len(parents), len(parents) - 1)
    here = record["ctx_len"], tokens[0]
    proved &= before.get(record["req"], here) == here
    before[record["req"]] = here[0] + len(path), targets[node]
    right += proved
used = time.process_time() - start
print(json.dumps({"steps": len(records), "right": right, "cpu": used}))
