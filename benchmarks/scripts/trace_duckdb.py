"""A step trace into a DuckDB table with list columns, by read_json with the columns named."""

import json
import sys
import time

import duckdb

COLUMNS = {
    "run_id": "VARCHAR", "step": "BIGINT", "req": "BIGINT", "ctx_len": "BIGINT",
    "tree_size": "BIGINT", "budget": "BIGINT", "accepted_drafts": "BIGINT",
    "commit_len": "BIGINT", "draft_ms": "DOUBLE", "build_ms": "DOUBLE", "verify_ms": "DOUBLE",
    "commit_ms": "DOUBLE", "step_ms": "DOUBLE", "node_tokens": "BIGINT[]", "parents": "BIGINT[]",
    "target_predict": "BIGINT[]", "accepted_path": "BIGINT[]",
}  # fmt: skip
NAMES = ("steps", "context", "drafts", "verify", "nodes", "tokens")
db = duckdb.connect()
columns = ", ".join(f"{name}: '{type}'" for name, type in COLUMNS.items())
start = time.perf_counter(), time.process_time()
db.execute(
    "CREATE TABLE trace AS FROM read_json(?, format = 'newline_delimited', "
    f"columns = {{{columns}}})",
    [sys.argv[1]],
)
loaded = time.perf_counter() - start[0], time.process_time() - start[1]
row = db.execute(
    """SELECT count(*), sum(ctx_len)::BIGINT, sum(accepted_drafts)::BIGINT, sum(verify_ms),
        sum(len(parents))::BIGINT, sum(list_sum(node_tokens))::BIGINT FROM trace"""
).fetchone()
print(json.dumps(dict(zip(NAMES, row or (), strict=True)) | {"times": {"load": loaded}}))
