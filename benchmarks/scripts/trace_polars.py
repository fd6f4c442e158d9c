"""A step trace into a Polars frame with list columns, by scan_ndjson with a schema."""

import json
import sys

import polars as pl

whole, real, row = pl.Int64, pl.Float64, pl.List(pl.Int64)
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "run_id": pl.String, "step": whole, "req": whole, "ctx_len": whole, "tree_size": whole,
    "budget": whole, "accepted_drafts": whole, "commit_len": whole, "draft_ms": real,
    "build_ms": real, "verify_ms": real, "commit_ms": real, "step_ms": real, "node_tokens": row,
    "parents": row, "target_predict": row, "accepted_path": row,
}  # fmt: skip
frame = pl.scan_ndjson(sys.argv[1], schema=SCHEMA).collect()
sums = frame.select(
    steps=pl.len(), context=pl.col("ctx_len").sum(), drafts=pl.col("accepted_drafts").sum(),
    verify=pl.col("verify_ms").sum(), nodes=pl.col("parents").list.len().sum(),
    tokens=pl.col("node_tokens").list.sum().sum(),
)  # fmt: skip
print(json.dumps(sums.row(0, named=True)))
