-- What a saved result has beside the tables and views of schema.sql.

CREATE TABLE finding (       -- one rule on one run, or on a run against another; the worst first
    id VARCHAR,
    rule VARCHAR, run VARCHAR,
    against VARCHAR,         -- the run it is compared with
    severity VARCHAR,        -- critical, high, medium, low, info
    title VARCHAR,           -- of the rule
    message VARCHAR,
    impact DOUBLE,           -- share of throughput lost, 0-1
    "values" JSON,           -- name -> value
    evidence STRUCT(path VARCHAR, line BIGINT, "text" VARCHAR)[],  -- lines that prove it
    causes STRUCT("name" VARCHAR, cause VARCHAR, test VARCHAR)[],  -- the likeliest first
    fix VARCHAR[],
    explained_by VARCHAR     -- id of the finding that it follows from
);

CREATE TABLE verdict (       -- of every rule on every run
    rule VARCHAR, run VARCHAR,
    result VARCHAR,          -- finding, pass, not applicable, undecided
    reason VARCHAR           -- what an undecided one lacks
);

CREATE TABLE saved (         -- one row: what reports are made from again
    schema INTEGER,          -- of this file and of the JSON in it
    specdiag VARCHAR,        -- version that wrote it
    diagnosis JSON,          -- as `--output json` writes it, with whole lines and the rules
    provenance JSON          -- where it comes from: files, definitions, command, configuration
);
