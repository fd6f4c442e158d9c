"""Four sums over the decode lines of a server's log: lines by DuckDB's CSV reader, one regex."""

import json
import sys

import duckdb

NAMES = ("decode", "running", "tokens", "speed", "queued")
row = duckdb.execute(
    r"""
    SELECT count(*), sum(f.running::BIGINT)::BIGINT, sum(f.tokens::BIGINT)::BIGINT,
        sum(f.speed::DOUBLE), sum(f.queued::BIGINT)::BIGINT
    FROM (
        SELECT regexp_extract(line, 'Decode batch[.,] #running-req: ([0-9]+), #token: ([0-9]+), '
            '.*gen throughput \(token/s\): ([0-9.]+), .*#queue-req: ([0-9]+)',
            ['running', 'tokens', 'speed', 'queued']) AS f
        FROM read_csv(?, columns = {'line': 'VARCHAR'}, header = false, auto_detect = false,
            delim = '\x01', quote = '', escape = '', strict_mode = false, null_padding = true,
            max_line_size = 8388608)
        WHERE contains(line, 'Decode batch')
    )
    WHERE f.running != ''
    """,
    [sys.argv[1]],
).fetchone()
print(json.dumps(dict(zip(NAMES, row or (), strict=True))))
