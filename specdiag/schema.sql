-- Every table and column that rules can read: the authority for names, units and meaning.
--
-- Each row of data knows its run, its source (a file, see table `source`) and its line (or the
-- number of its record), so that a finding can quote what proves it. Whatever a source counts,
-- A = accepted drafts = accepted depth, C = commit length = A + 1 (the bonus is the target's own
-- token); the source's own figure is kept beside it under the source's own name.
-- Times are the log's own clock. A column that the source does not have is NULL.

CREATE TABLE source (
    source INTEGER,          -- number of the file in this analysis
    path VARCHAR,            -- as the user named it
    format VARCHAR,          -- name of the parser, NULL if none knows the file
    lines BIGINT,            -- lines or records that are not empty
    parsed DOUBLE,           -- share of them that was understood, 0-1
    bytes BIGINT             -- size on disk
);

CREATE TABLE unread (        -- labels on known lines that the parser does not know
    source INTEGER,
    "table" VARCHAR,         -- where the line's other values went
    name VARCHAR,            -- the label or key as the source writes it
    lines BIGINT             -- on how many lines
);

-- One life of a server, one run of the bundled runtime, or one benchmark.
CREATE TABLE run (
    run VARCHAR,
    algorithm VARCHAR,          -- asked for: NONE, EAGLE3, DFLASH, DDTREE, ...; NULL if not known
    executed VARCHAR,           -- what the lines and steps say ran, NULL if they do not
    speculates BOOLEAN,         -- asked to speculate, or seen to
    tree BOOLEAN,               -- asked for a draft tree, or seen to build one
    shadow BOOLEAN,             -- asked for shadow-linear: tree scored, chain verified
    server BOOLEAN,             -- a server log with start-up or serving lines belongs to it
    model VARCHAR,
    draft_model VARCHAR,
    version VARCHAR,            -- of the engine, or what a client says of it
    draft_tokens BIGINT,        -- verify width per request, bonus row included
    draft_steps BIGINT,
    budget BIGINT,              -- tree nodes without the root
    top_k BIGINT,               -- candidates per depth
    block BIGINT,               -- drafter block size; it predicts block - 1 depths
    page_size BIGINT,
    log_interval BIGINT,        -- decode steps between two decode lines
    ready BOOLEAN,              -- said that it was ready, or served
    served BOOLEAN,             -- did some work: decoded, stepped, answered, was measured
    rate_formula VARCHAR,       -- which definition wrote `accept rate`: see derive/09_rate.sql
    rate_width BIGINT,          -- and what it divided by
    first_verify_drafts DOUBLE, -- A of the one verification that a build reports; a sign of life
    accept_len DOUBLE,          -- C, mean over steps
    accept_len_from VARCHAR,    -- what it was computed from
    tokens_per_s DOUBLE,        -- generated, all requests together, median of usable lines
    step_ms DOUBLE,             -- median time of a step
    step_ms_measured BOOLEAN,   -- false: computed as running x C / throughput
    ctx_min DOUBLE, ctx_max DOUBLE,  -- tokens of context a request
    running DOUBLE,             -- median batch size
    started TIMESTAMP, ended TIMESTAMP
);

CREATE TABLE config (        -- arguments, settings, package versions
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP, rank VARCHAR,
    key VARCHAR, value VARCHAR
);

CREATE TABLE event (         -- life-cycle and notable lines
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP, rank VARCHAR,
    kind VARCHAR,            -- weights, capacity, capture_begin, ready, hook, retraction, life,
                             -- crash, frame (of a traceback), stack (of py-spy), nan, wait, ...
    name VARCHAR,            -- what it is about: DDTREE, DFlashDraftModel, target verify
    detail VARCHAR,          -- what happened to it
    value DOUBLE,            -- the figure of the line, by kind: requests retracted, GB free
    before DOUBLE, after DOUBLE  -- a change: new-token ratio, draft steps
);

CREATE TABLE decode (        -- what the scheduler decoded since its last report
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP,
    rank VARCHAR,            -- as printed: DP1 TP0
    iteration VARCHAR,
    running BIGINT,          -- requests in the batch when the line was printed
    tokens BIGINT,           -- KV slots in use
    usage DOUBLE,            -- share of the KV pool, 0-1
    swa_tokens BIGINT, swa_usage DOUBLE, state_slots BIGINT, state_usage DOUBLE,
    accept_len DOUBLE,       -- as printed
    accept_rate DOUBLE,      -- as printed; run.rate_formula says what it means
    cap_len DOUBLE, block_accept_len DOUBLE, uncapped_accept_len DOUBLE,
    preallocated_usage DOUBLE, preallocated BIGINT, transferring BIGINT, received BIGINT,
    retracted BIGINT, waiting_images BIGINT,
    graph BOOLEAN,           -- the last forward ran from a graph; NULL in old formats
    cpu_graph BOOLEAN,       -- the same of a server on a CPU
    tokens_per_s DOUBLE,     -- generated, wall clock since the last report
    prompt_tokens_per_s DOUBLE,
    largest_len BIGINT, queued BIGINT, cpu_tokens BIGINT, cpu_usage DOUBLE,
    tflops DOUBLE, read_gb_per_s DOUBLE, write_gb_per_s DOUBLE,
    occupancy DOUBLE, busy_occupancy DOUBLE, prefix_hit_rate DOUBLE,
    extra JSON,              -- labels that no column knows
    complete BOOLEAN,        -- false: torn or cut, some fields are missing
    commit_len DOUBLE,       -- C: accept_len, of vLLM the record beside it, or 1 without speculation
    accepted_drafts DOUBLE AS (commit_len - 1),  -- A
    ctx_len DOUBLE AS (CASE WHEN running > 0 AND tokens > 0 THEN tokens / running END),
    -- computed, not measured: running x C / throughput
    step_ms DOUBLE AS (CASE WHEN running > 0 AND tokens_per_s > 0 THEN 1000 * running * commit_len / tokens_per_s END),
    steps DOUBLE,            -- of single requests, as many as it stands for: running x the log's interval
    after_prefill BOOLEAN,   -- a prompt was computed since the last report of the rank
    idle BOOLEAN,            -- first report of the rank, or the first after an idle gap
    usable BOOLEAN,          -- complete, requests running, not idle: fit for medians
    steady BOOLEAN           -- usable, same batch as before, no prefill in it: fit for step times
);

CREATE TABLE prefill (       -- a batch of prompts that was computed
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP, rank VARCHAR, iteration VARCHAR,
    new_requests BIGINT, new_tokens BIGINT, cached_tokens BIGINT,
    cache_hit_rate DOUBLE,   -- percent
    usage DOUBLE, swa_usage DOUBLE, state_usage DOUBLE, running BIGINT, queued BIGINT,
    pending_tokens BIGINT, replayed_tokens BIGINT, preallocated BIGINT, bootstrapping BIGINT,
    inflight BIGINT, optimistic BIGINT, waiting_images BIGINT, graph BOOLEAN, cpu_graph BOOLEAN,
    tokens_per_s DOUBLE,     -- wall clock, not prefill speed
    tflops DOUBLE, occupancy DOUBLE, busy_occupancy DOUBLE, extra JSON, complete BOOLEAN
);

CREATE TABLE acceptance (    -- aggregate speculation counters, as a server prints them
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP, rank VARCHAR,
    accepted_depth DOUBLE,   -- as printed
    accepted_drafts DOUBLE,  -- A as printed
    commit_len DOUBLE,       -- C as printed
    requests BIGINT,         -- length of the printed list
    tree_size DOUBLE, budget BIGINT, top_k BIGINT, ctx_len DOUBLE, batch DOUBLE,
    draft_ms DOUBLE, build_ms DOUBLE, verify_ms DOUBLE, commit_ms DOUBLE, step_ms DOUBLE,
    tokens_per_s DOUBLE,
    accepted_tokens BIGINT, drafted_tokens BIGINT,  -- counts of the window (vLLM, llama.cpp)
    emitted_tokens BIGINT,   -- with the bonus tokens; vLLM's V0 engine has no other count of them
    drafted_per_s DOUBLE,
    accept_rate DOUBLE,      -- accepted / drafted, 0-1
    steps DOUBLE,            -- how many steps the figures stand for
    positions DOUBLE[],      -- share of steps that accept at least k drafts, k = 1, 2, ...
    extra JSON
);

CREATE TABLE request (       -- one finished request
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP, rank VARCHAR,
    request VARCHAR,
    prompt_tokens BIGINT, completion_tokens BIGINT, cached_tokens BIGINT,
    max_new_tokens BIGINT,   -- how many were asked for at most
    verify_steps BIGINT,     -- steps of this request
    one_is_none BOOLEAN,     -- one step a token is what it says where nothing speculates, too
    accept_len DOUBLE,       -- as the server gave it
    accept_rate DOUBLE,      -- as the server gave it
    correct_drafts BIGINT,   -- sum of A
    proposed_drafts BIGINT,
    histogram DOUBLE[],      -- [k + 1]: steps with A = k
    finish VARCHAR,          -- stop, length, grammar, abort
    temperature DOUBLE,
    grammar VARCHAR,         -- what the answer must follow: json_schema, regex, ..., or the schema or expression itself
    e2e_s DOUBLE, ttft_s DOUBLE, queue_s DOUBLE,
    tokens_per_s DOUBLE,     -- decoding only, as the server gave it
    retractions BIGINT,
    prompt VARCHAR,          -- its text, or messages as JSON; a long one is cut and ends with its MD5
    text VARCHAR,            -- the answer's text, at most 8000 characters of it
    extra JSON,
    drafts DOUBLE,           -- steps with a draft, where others may have none (llama.cpp, vLLM)
    commit_len DOUBLE        -- C: (completion_tokens - 1) / verify_steps; the first token is prefill's
);

CREATE TABLE benchmark (     -- one result of a benchmark client
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP,
    backend VARCHAR, dataset VARCHAR, request_rate VARCHAR,
    max_concurrency DOUBLE, concurrency DOUBLE,
    duration_s DOUBLE, completed BIGINT, input_tokens BIGINT, output_tokens BIGINT,
    requests_per_s DOUBLE, input_tokens_per_s DOUBLE,
    tokens_per_s DOUBLE,     -- output
    accept_len DOUBLE,       -- as the client printed it, often the server's lifetime mean C
    one_is_none BOOLEAN,     -- this client prints 1 where nothing speculates, too
    accuracy DOUBLE, accuracy_error DOUBLE,  -- share of the questions answered rightly, its standard error if said
    verify_steps BIGINT,     -- of all requests together; of vLLM those with a draft
    positions DOUBLE[],      -- share of those steps that accept at least k drafts, k = 1, 2, ...
    mean_ttft_ms DOUBLE, median_ttft_ms DOUBLE, p99_ttft_ms DOUBLE,
    mean_tpot_ms DOUBLE, median_tpot_ms DOUBLE,
    mean_itl_ms DOUBLE, median_itl_ms DOUBLE, p99_itl_ms DOUBLE,
    mean_e2e_ms DOUBLE, median_e2e_ms DOUBLE, mean_e2e_s DOUBLE, median_e2e_s DOUBLE,
    request_tokens_per_s DOUBLE,  -- output of one request while it decodes
    step_s DOUBLE, step_ms DOUBLE,  -- one step of the batch, as the client says it
    draft_tokens BIGINT, draft_steps BIGINT, top_k BIGINT,  -- asked for; 0: without speculation
    algorithm VARCHAR, model VARCHAR, version VARCHAR,
    prompt_lens BIGINT[], answer_lens BIGINT[], texts VARCHAR[],  -- of each request, where the client keeps them
    extra JSON
);

-- One draft-verify-commit step of one request. Row 0 of the tree is the root (the last committed
-- token); rows 1..N are the nodes. The trace schema, version 1, is `ddtree/trace.py`.
CREATE TABLE step (
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP,
    -- head
    request VARCHAR,
    step BIGINT,             -- number of the step in its request
    row BIGINT, batch BIGINT,  -- row in the batch, size of the batch
    warmup BOOLEAN,          -- a warm-up, capture or padding step: no request's
    mode VARCHAR,            -- autoregressive, linear, ddtree, shadow_linear
    algorithm_requested VARCHAR, algorithm VARCHAR,  -- asked for, executed
    ctx_len BIGINT,          -- committed tokens before the step = position of the root
    root BIGINT,             -- token
    budget_requested BIGINT, budget BIGINT, top_k BIGINT,  -- effective, where not said otherwise
    nodes BIGINT,            -- N, without the root
    width BIGINT,            -- verify rows, padding included
    graph_key VARCHAR, replayed BOOLEAN, tree_hash VARCHAR,
    -- draft
    block_tokens BIGINT[],   -- [block] drafter input: root, then mask ids
    block_start BIGINT,      -- position of the first of them
    draft_kv_before BIGINT, draft_kv_after BIGINT,
    context_start BIGINT, context_rows BIGINT,  -- context features appended in this step
    context_source BIGINT[], -- [context_rows] verify rows of the step before that they come from
    window_low BIGINT[],     -- lowest context position read, per draft layer and target layer type
    spine_tokens BIGINT[],   -- [L] the drafter's first choice per depth
    -- accept
    accepted BIGINT[],       -- [A + 1] accepted rows, root first
    bonus BIGINT, bonus_row BIGINT,
    emitted BIGINT[],        -- tokens handed to the request
    cut VARCHAR,             -- why emitted is shorter than C: stop, length, grammar, abort
    kv_before BIGINT, kv_verified BIGINT, kv_after BIGINT,  -- rows in the target cache
    kv_source BIGINT[], kv_target BIGINT[],  -- [C] rows moved by the commit
    state_row BIGINT,        -- row whose recurrent state was promoted
    checkpoint_tokens BIGINT[], checkpoint_rows BIGINT[],  -- states for a prefix cache: behind so many tokens, of these rows
    accepted_depth DOUBLE, accepted_drafts DOUBLE, commit_len DOUBLE,  -- as the engine computed them
    accept_len DOUBLE,       -- as the source gave it, where its name says neither A nor C
    finish VARCHAR,          -- set on a request's last step
    -- time, milliseconds
    draft_ms DOUBLE, topk_ms DOUBLE, build_ms DOUBLE, compile_ms DOUBLE, verify_ms DOUBLE,
    walk_ms DOUBLE, commit_ms DOUBLE, idle_ms DOUBLE, step_ms DOUBLE,
    other_ms JSON,           -- stages under other names
    synchronisations BIGINT, bytes_to_host BIGINT, free_slots BIGINT,
    tokens_per_s DOUBLE,
    -- nodes, [N + 1] with the root first
    node_tokens BIGINT[], parents BIGINT[], depths BIGINT[], ranks BIGINT[], log_probs DOUBLE[],
    positions BIGINT[], slots BIGINT[], state_sources BIGINT[],
    target_tokens BIGINT[],  -- the target's choice after each row
    gaps DOUBLE[],           -- its top-1 minus top-2 logit
    -- optional
    target_probs DOUBLE[], draws DOUBLE[], target_ranks BIGINT[],
    legal BOOLEAN[],         -- does the grammar, along the row's own path, allow the choice after it
    candidate_tokens BIGINT[][], candidate_log_probs DOUBLE[][], lse DOUBLE[],  -- [L][K], [L]
    visible VARCHAR[],       -- [N + 1] the mask's tree columns as read back, as hexadecimal bits
    past_visible BIGINT[], mask_bytes BIGINT,
    ids_read BIGINT[], positions_read BIGINT[],  -- read back from the device
    tap_layers_read BIGINT[],  -- target layers whose output the drafter was given, -1: none of them
    draft_turns DOUBLE[],    -- [draft layer] angle of the slowest pair of the root's query, radians
    checksums JSON,          -- name -> list, see ddtree/trace.py
    oracle_tokens BIGINT[], oracle_gaps DOUBLE[],  -- a plain target pass over the emitted text
    extra JSON,
    last BOOLEAN             -- the request's last step in this trace
);

CREATE TABLE problem (       -- exceptions and fatal messages
    run VARCHAR, source INTEGER, line BIGINT,
    time TIMESTAMP,          -- its own, else that of the last line before it that has one
    rank VARCHAR,            -- its own, else that of the record that holds its traceback
    type VARCHAR,            -- class of the exception, or the program that failed
    message VARCHAR,
    frames VARCHAR,          -- of the traceback above it, the outermost first: file.py:function, ...
    at_start BOOLEAN,        -- before the server was ready and served anything
    fatal BOOLEAN,           -- nothing was served after it
    killed BOOLEAN,          -- a process says that it does not survive it, or died after it
    follows BOOLEAN,         -- a headline, a look-up that Python survives, a peer that is gone
    cause BOOLEAN            -- of the fatal ones of a run the first that does not follow from another
);

CREATE TABLE server_state (  -- what a server answers when it is asked for its state, a rank each
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP, rank VARCHAR,
    accept_len DOUBLE,       -- lifetime mean C, warm-up included
    tokens_per_s DOUBLE,     -- of the last interval in which it decoded
    step_times JSON,         -- running requests -> seconds a step of each interval, wall clock
    extra JSON
);

CREATE TABLE metric (        -- scraped series
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP,
    name VARCHAR, labels VARCHAR, value DOUBLE,
    unit VARCHAR,            -- as the source writes it: %, MiB, W
    device VARCHAR,          -- number of the GPU, where the series is one of a GPU
    scrape BIGINT,           -- 1, 2, ...: how often the file has had this series by now
    per_s DOUBLE             -- counters: growth a second since the scrape before, where both are timed
);

-- Profiler traces: the device's own time, apart from pauses in which nobody asked for anything.
CREATE TABLE profile (       -- one device in one trace
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP,
    device VARCHAR,
    window_ms DOUBLE,        -- first to last work, pauses left out
    busy_ms DOUBLE,          -- some stream works
    gap_ms DOUBLE,           -- no stream works
    host_gap_ms DOUBLE,      -- of these: what ends the gap was launched after it began
    pause_ms DOUBLE,         -- left out: longer than three steps (50 ms where none is marked)
    kernels BIGINT,          -- kernels and copies
    launches BIGINT, graph_launches BIGINT,  -- calls of the host, graphs included
    wait_ms DOUBLE,          -- of the host, in synchronising calls
    steps BIGINT, step_ms DOUBLE,  -- as marked in the trace; median time from one to the next
    stacks BOOLEAN           -- Python stacks were recorded: the host was slowed down by that
);

CREATE TABLE profile_stage ( -- the ranges of a stage on a device
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP,
    device VARCHAR,
    stage VARCHAR,           -- draft, verify, prefill, decode, sample, step
    name VARCHAR,            -- of the first range, as marked
    ranges BIGINT, range_ms DOUBLE,  -- how many, and how long all together
    kernel_ms DOUBLE, kernels BIGINT,  -- the device's work in them; of streams side by side the sum
    on_device BOOLEAN        -- ranges of the device; false: of the host that launched the work
);

CREATE TABLE profile_gap (   -- the longest gaps of a device
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP,
    device VARCHAR,
    at_ms DOUBLE,            -- since the first work
    gap_ms DOUBLE,
    host BOOLEAN,            -- launched after the gap began; NULL: not known
    before VARCHAR, after VARCHAR  -- the work around it
);

CREATE TABLE histogram (     -- scraped histograms: of a scrape what came since the one before it
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP,
    name VARCHAR,            -- without _bucket
    labels VARCHAR,          -- without le
    scrape BIGINT,
    count DOUBLE, mean DOUBLE,
    p50 DOUBLE, p90 DOUBLE, p99 DOUBLE  -- straight lines inside a bucket
);

CREATE TABLE replay (        -- identities that a step violates
    run VARCHAR, request VARCHAR, step BIGINT, source INTEGER, line BIGINT,
    identity VARCHAR, field VARCHAR,
    entry BIGINT,            -- the first one that differs, where the field is a list
    expected VARCHAR, observed VARCHAR,
    entries BIGINT           -- how many entries differ
);

-- A median holds all its values in memory, and those of very many rows do not fit: there, of each run
-- with more than a thousand rows one in `every` is taken, by chance but always the same ones.
CREATE TABLE share (
    run VARCHAR,
    every UBIGINT            -- 1 up to two million rows in all
);
CREATE MACRO drawn(kind, line, every) AS kind NOT IN ('decode', 'step') OR hash(line) % every = 0;

-- Every commit length of a run, whatever kind of row it stands in. Decode lines and steps are by far
-- the most of them: they are not copied.
CREATE TABLE other_commit (
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP,
    kind VARCHAR,            -- acceptance, request, benchmark, state; in commit_sample also decode, step
    steps DOUBLE,            -- how many steps it stands for, as far as known
    commit_len DOUBLE,       -- C
    ctx_len DOUBLE,
    running DOUBLE,
    tokens_per_s DOUBLE,
    drafted DOUBLE           -- tokens drafted a step, as far as known
);

CREATE VIEW decode_commit AS
SELECT run, source, line, time, 'decode' AS kind, steps, commit_len, ctx_len, running::DOUBLE AS running, tokens_per_s, NULL::DOUBLE AS drafted
FROM decode WHERE usable AND accept_len IS NOT NULL;

CREATE VIEW step_commit AS
SELECT run, source, line, time, 'step' AS kind, 1::DOUBLE AS steps, coalesce(commit_len, accepted_drafts + 1) AS commit_len, ctx_len::DOUBLE AS ctx_len, batch::DOUBLE AS running, tokens_per_s,
    coalesce(nodes, budget)::DOUBLE AS drafted
FROM step WHERE coalesce(commit_len, accepted_drafts) IS NOT NULL AND warmup IS NOT TRUE;

CREATE VIEW commit_sample AS FROM decode_commit UNION ALL FROM step_commit UNION ALL FROM other_commit;

-- The mean commit length of a run, for each kind of row: pooled, each step counts once. Text changes
-- slowly, so neighbouring rows are alike: the error is taken from up to ten stretches of rows, and is
-- not smaller than that of a geometric commit length.
CREATE TABLE commit_mean (
    run VARCHAR, kind VARCHAR,
    commit_len DOUBLE,       -- C
    error DOUBLE,            -- standard error of it
    rows BIGINT, steps DOUBLE,
    first_third DOUBLE, last_third DOUBLE,  -- C in the first and in the last third of the rows
    ctx_len DOUBLE, running DOUBLE,  -- medians
    lines STRUCT(source INTEGER, line BIGINT)[]  -- two of the first rows and one of the last
);

-- Every time of a step, with the context it was taken at; again without copies.
CREATE TABLE other_time (
    run VARCHAR, source INTEGER, line BIGINT,
    kind VARCHAR,            -- step, acceptance, state; in time_sample also decode, and more of step
    measured BOOLEAN,        -- false: computed as running x C / throughput
    ctx_len DOUBLE, running DOUBLE,
    stage VARCHAR,           -- step (the whole), or a stage: draft, verify, commit, ...
    ms DOUBLE
);

-- The whole of a step stands by itself: who asks for nothing else reads one column.
CREATE VIEW time_sample AS
FROM other_time
UNION ALL
SELECT run, source, line, 'step', true, ctx_len, batch, 'step', step_ms FROM step WHERE warmup IS NOT TRUE AND ctx_len > 0 AND step_ms > 0
UNION ALL
SELECT run, source, line, 'step', true, ctx_len, batch, stage, ms
FROM (
    UNPIVOT (SELECT run, source, line, ctx_len, batch, draft_ms AS draft, topk_ms AS "top-k", build_ms AS build,
                    compile_ms AS compile, verify_ms AS verify, walk_ms AS walk, commit_ms AS "commit"
             FROM step WHERE warmup IS NOT TRUE AND ctx_len > 0)
    ON draft, "top-k", build, compile, verify, walk, "commit" INTO NAME stage VALUE ms
)
WHERE ms > 0 AND stage <> 'step'
UNION ALL
SELECT run, source, line, 'decode', false, ctx_len, running, 'step', step_ms FROM decode WHERE steady AND ctx_len > 0 AND step_ms > 0;

-- Two runs that can be compared: of the same model, layout and quantisation; where no model is
-- known, arms of one file or of a folder with a few files.
CREATE TABLE peer (
    run VARCHAR, against VARCHAR
);

-- Runs that stand beside each other: peers, the same with other layouts, and whatever is compared
-- with the run that the user named as the baseline. Whether a comparison means anything is what
-- `hindrance` says; in what their settings differ, `difference`.
CREATE TABLE pairing (
    run VARCHAR, against VARCHAR,
    declared BOOLEAN,        -- the user named `against` as the baseline
    later BOOLEAN,           -- `run` is what is new: of a later version, or else started later
    same_prompts BOOLEAN     -- the prompts are as many and as long, or the same texts; NULL if not known
);

CREATE TABLE hindrance (     -- why two runs cannot be compared
    run VARCHAR, against VARCHAR,
    what VARCHAR,            -- model, hardware, server, prompts, length (of the answers)
    value VARCHAR, other VARCHAR
);

-- A setting in which two runs of `pairing` differ, without those that cannot matter (ports, paths of
-- logs, seeds, keys, names). `value` is that of `run`; NULL where a run does not have the setting.
CREATE TABLE difference (
    run VARCHAR, against VARCHAR,
    key VARCHAR, value VARCHAR, other VARCHAR,
    kind VARCHAR             -- version, model, draft, quantisation, layout, sampling, kernel, capacity, other
);

CREATE VIEW comparable AS    -- pairings without a hindrance
SELECT p.run, p.against, p.declared, p.later, p.same_prompts
FROM pairing p LEFT JOIN hindrance h ON h.run = p.run AND h.against = p.against
WHERE h.run IS NULL;

CREATE VIEW rival AS         -- comparable runs that both speculate: their commit lengths by the same kind of row
SELECT c.run, c.against, c.declared, c.later, c.same_prompts, x.kind,
    x.commit_len, x.error, x.rows, x.steps, x.first_third, x.last_third, x.lines,
    y.commit_len AS other_len, y.error AS other_error, y.rows AS other_rows, y.steps AS other_steps, y.lines AS other_lines,
    (y.commit_len - x.commit_len) / sqrt(x.error ** 2 + y.error ** 2) AS errors  -- by how many standard errors it is lower
FROM comparable c JOIN commit_mean x ON x.run = c.run JOIN commit_mean y ON y.run = c.against AND y.kind = x.kind
WHERE least(x.steps, y.steps) >= 200 AND (x.kind IN ('request', 'benchmark') OR least(x.rows, y.rows) >= 5)
QUALIFY row_number() OVER (PARTITION BY c.run, c.against ORDER BY list_position(['step', 'request', 'decode', 'acceptance', 'benchmark'], x.kind)) = 1;

CREATE VIEW baseline AS      -- peers on the same hardware that do not speculate
SELECT p.run, p.against FROM peer p JOIN run r ON r.run = p.against
LEFT JOIN hindrance h ON h.run = p.run AND h.against = p.against AND h.what IN ('model', 'hardware')
WHERE h.run IS NULL
    AND NOT r.speculates AND coalesce(r.algorithm, 'NONE') IN ('NONE', 'AUTOREGRESSIVE', 'PLAIN', 'BASELINE');

CREATE VIEW checked AS       -- what says whether answers are right: their texts, or an evaluation of as many
SELECT run, source, line FROM request WHERE text IS NOT NULL
UNION ALL
SELECT run, source, line FROM (SELECT *, unnest(range(100)) FROM benchmark WHERE accuracy IS NOT NULL);

CREATE VIEW chain AS         -- peers of the same model that are known to verify a chain
SELECT p.run, p.against FROM peer p JOIN run r ON r.run = p.against
LEFT JOIN hindrance h ON h.run = p.run AND h.against = p.against AND h.what = 'model'
WHERE h.run IS NULL AND r.speculates AND NOT r.tree AND r.algorithm IS NOT NULL;

-- Whether a run and its chain were given the same prompts, by each place that shows their lengths.
CREATE VIEW chain_prompts AS
WITH prompt AS (
    SELECT run, 'prefill' AS seen, new_tokens + coalesce(cached_tokens, 0) AS tokens, new_requests AS prompts FROM prefill WHERE new_requests > 0
    UNION ALL
    SELECT run, 'request', prompt_tokens, 1 FROM request WHERE prompt_tokens > 0
    UNION ALL
    SELECT run, 'step', min(ctx_len), 1 FROM step WHERE request IS NOT NULL AND NOT coalesce(warmup, false) GROUP BY run, request HAVING min(ctx_len) > 0
),
mean_prompt AS (SELECT run, seen, sum(tokens) / sum(prompts) AS length, count(DISTINCT tokens) AS lengths FROM prompt GROUP BY run, seen)
SELECT p.run, p.against, a.seen,
    abs(a.length - b.length) / least(a.length, b.length) AS apart,  -- the mean lengths, 0: equal
    (SELECT count(DISTINCT x.tokens) FROM prompt x JOIN prompt y ON y.run = b.run AND y.seen = x.seen AND y.tokens = x.tokens
     WHERE x.run = a.run AND x.seen = a.seen) / least(a.lengths, b.lengths) AS shared  -- of the different lengths, 0-1
FROM chain p
JOIN mean_prompt a ON a.run = p.run JOIN mean_prompt b ON b.run = p.against AND b.seen = a.seen;

-- Published commit lengths, from published.csv.
CREATE TABLE published (
    target VARCHAR,          -- name of the target model, in lower case, without its maker
    algorithm VARCHAR, block INTEGER, budget INTEGER,
    dataset VARCHAR, temperature DOUBLE, thinking BOOLEAN,
    commit_len DOUBLE,       -- C, mean over responses
    speed_up DOUBLE,         -- over plain decoding, NULL if not told
    source VARCHAR           -- who published it
);

-- Double-entry book-keeping: what is counted in two places, per request and per run, and whether it
-- balances. Residues that are no fault have room in `least` and `most`: the token that prefill makes,
-- what a stop cuts off the last block, a step that was under way, times printed in whole seconds.
CREATE VIEW ledger AS
WITH width AS (
    SELECT run, mode(round(proposed_drafts / verify_steps)) AS width FROM request WHERE verify_steps > 0 AND proposed_drafts > 0 GROUP BY run
),
record AS (
    SELECT r.*, w.width, r.run IN (SELECT run FROM event WHERE kind = 'adaptive') AS adaptive, list_sum(histogram) AS counted_steps,
        list_sum(list_transform(histogram, lambda h, i: h * (i - 1))) AS counted_drafts
    FROM request r LEFT JOIN width w USING (run) WHERE r.verify_steps > 0
),
client AS (SELECT run FROM request UNION SELECT run FROM benchmark),
kept AS (  -- the same quantity from two kinds of source, each with what it stands for
    SELECT c.run, c.kind, CASE c.kind WHEN 'decode' THEN 'decode lines' WHEN 'request' THEN 'response records' ELSE 'benchmark' END AS name,
        sum(commit_len * coalesce(steps, 1)) / sum(coalesce(steps, 1)) AS commit_len, sum(steps) AS steps, count(*) AS rows,
        coalesce(stddev_samp(commit_len) / sqrt(count(*)), 0) AS error, CASE WHEN c.kind = 'request' THEN avg(commit_len) END AS per_request,
        arg_min(source, line) AS source, min(line) AS line
    FROM commit_sample c WHERE c.kind IN ('decode', 'request', 'benchmark') AND c.run IN (FROM client) GROUP BY c.run, c.kind
),
volume AS (
    SELECT d.run, 'decode' AS kind, sum(d.running * d.commit_len) * any_value(coalesce(r.log_interval, 40)) AS tokens
    FROM decode d JOIN run r USING (run) WHERE d.complete AND d.run IN (FROM client) GROUP BY d.run
    UNION ALL
    SELECT run, 'request', sum(completion_tokens) FROM request GROUP BY run
    UNION ALL
    SELECT run, 'benchmark', sum(output_tokens) FROM benchmark GROUP BY run
),
growth AS (  -- steady decode lines: the same batch from the line before to this one, and no prompt
    SELECT d.run, d.source, d.line, d.steady, d.commit_len, r.log_interval * d.running * d.commit_len AS committed, r.draft_tokens, d.running, d.tokens - lag(d.tokens) OVER w AS grown, drawn('decode', d.line, h.every) AS drawn
    FROM decode d JOIN run r ON r.run = d.run AND r.log_interval > 0 AND r.speculates AND r.page_size = 1 JOIN share h ON h.run = d.run
    -- a node that only decodes gets its requests from others: none of its lines says when
    WHERE d.run NOT IN (SELECT run FROM config WHERE key = 'disaggregation_mode' AND value ILIKE 'decode')
    WINDOW w AS (PARTITION BY d.run, d.rank ORDER BY d.source, d.line)
),
context AS (  -- a ratio that scatters is no witness: prompts are shared, slots come in pages
    SELECT run, count(*) AS rows, sum(grown) AS grown, sum(committed) AS committed, median(grown / committed) FILTER (drawn) AS ratio, median(commit_len) FILTER (drawn) AS commit_len,
        arg_min(source, line) AS source, min(line) AS line
    FROM growth WHERE steady AND grown > 0 AND committed > 0 GROUP BY run
    HAVING count(*) >= 8 AND quantile_cont(grown / committed, 0.75) FILTER (drawn) < 1.15 * quantile_cont(grown / committed, 0.25) FILTER (drawn)
        AND NOT (ratio > 1.7 AND abs(ratio - round(ratio)) < 0.1)  -- every second, third, ... line of a log
        AND NOT (ratio < 0.85 AND median(running) FILTER (drawn) > 1)  -- of several requests some may have ended
        AND NOT coalesce(ratio > 1.15 AND ratio * commit_len > any_value(draft_tokens), false)  -- more than a step can commit: lines are missing
),
interval AS (
    SELECT d.run, d.source, d.line, d.steady, d.tokens_per_s, r.log_interval * d.running * d.commit_len AS committed,
        epoch(d.time) - epoch(lag(d.time) OVER w) AS seconds, d.tokens_per_s IS DISTINCT FROM lag(d.tokens_per_s) OVER w AS fresh
    FROM decode d JOIN run r ON r.run = d.run AND r.log_interval > 0 AND r.speculates
    WINDOW w AS (PARTITION BY d.run, d.rank ORDER BY d.source, d.line)
),
clock AS (
    SELECT run, count(*) AS rows, sum(tokens_per_s * seconds) AS timed, sum(committed) AS committed,
        arg_min(source, line) AS source, min(line) AS line
    FROM interval WHERE steady AND fresh AND seconds >= 0 AND committed > 0 GROUP BY run
),
counter AS (  -- the last scrape of a counter, all its labels together
    SELECT run, name, sum(value) AS value, arg_max(source, line) AS source, max(line) AS line FROM (
        SELECT run, name, labels, arg_max(value, line) AS value, arg_max(source, line) AS source, max(line) AS line FROM metric
        WHERE name IN ('sglang:generation_tokens_total', 'vllm:generation_tokens_total', 'vllm:spec_decode_num_accepted_tokens_total', 'vllm:spec_decode_num_draft_tokens_total')
        GROUP BY run, name, labels
    ) GROUP BY run, name
),
logged AS (
    SELECT run, sum(accepted_tokens) AS accepted, sum(drafted_tokens) AS drafted, count(*) AS rows FROM acceptance WHERE commit_len IS NOT NULL AND drafted_per_s IS NOT NULL GROUP BY run
),
entry AS (
    SELECT run, request, 'accept length' AS account, 'accept length x steps' AS left_side, accept_len * verify_steps AS left_value, 'completion tokens' AS right_side, completion_tokens::DOUBLE AS right_value,
        -1 - 0.011 * verify_steps AS least, 0.011 * verify_steps AS most, 1 AS rows, source, line,
        CASE WHEN abs(accept_len + 1 - completion_tokens / verify_steps) <= 0.011
             THEN format('accept length {:.3f} lacks the bonus token ({} tokens in {} steps are {:.3f})', accept_len, completion_tokens, verify_steps, completion_tokens / verify_steps)
             ELSE format('accept length {:.3f}, but {} tokens in {} steps are {:.3f}', accept_len, completion_tokens, verify_steps, completion_tokens / verify_steps) END AS told
    FROM record WHERE accept_len IS NOT NULL AND completion_tokens > 0
    UNION ALL
    SELECT run, request, 'proposed drafts', 'proposed', proposed_drafts, 'steps x width', width * verify_steps, 0, 0, 1, source, line,
        format('{} drafts proposed in {} steps are {:.2f} a step, elsewhere {:.0f}', proposed_drafts, verify_steps, proposed_drafts / verify_steps, width)
    FROM record WHERE proposed_drafts IS NOT NULL AND width IS NOT NULL AND NOT adaptive
    UNION ALL
    SELECT run, request, 'steps', 'histogram', counted_steps, 'verify count', verify_steps, -1, 1, 1, source, line,
        format('the histogram counts {:.0f} steps, the record {}', counted_steps, verify_steps)
    FROM record WHERE counted_steps IS NOT NULL
    UNION ALL
    SELECT run, request, 'accepted drafts', 'histogram', counted_drafts, 'accepted drafts', correct_drafts, -0.5, 0.5, 1, source, line,
        format('the histogram holds {:.0f} accepted drafts, the record {}', counted_drafts, correct_drafts)
    FROM record WHERE counted_drafts IS NOT NULL AND correct_drafts IS NOT NULL AND abs(counted_steps - verify_steps) <= 1
    UNION ALL
    -- the first token is prefill's, and again after each retraction; a block may be cut, and a step be under way
    SELECT run, request, 'tokens', 'drafts + steps + first token', correct_drafts + verify_steps + 1, 'completion tokens', completion_tokens,
        -1 - coalesce(retractions, 0), 2 * (width + 1), 1, source, line,
        format('{} accepted drafts, {} steps and the first token make {} tokens, the record has {}', correct_drafts, verify_steps, correct_drafts + verify_steps + 1, completion_tokens)
    FROM record WHERE correct_drafts IS NOT NULL AND completion_tokens > 0 AND width IS NOT NULL AND NOT adaptive
    UNION ALL
    SELECT a.run, NULL, 'commit length', a.name, a.commit_len, b.name, b.commit_len,
        -0.08 * least(a.commit_len, b.commit_len) - 4 * sqrt(a.error ** 2 + b.error ** 2), 0.08 * least(a.commit_len, b.commit_len) + 4 * sqrt(a.error ** 2 + b.error ** 2),
        a.rows + b.rows, a.source, a.line, format('commit length is {:.2f} by the {} and {:.2f} by the {}', a.commit_len, a.name, b.commit_len, b.name)
    FROM kept a JOIN kept b ON a.run = b.run AND a.kind < b.kind
    JOIN volume va ON va.run = a.run AND va.kind = a.kind JOIN volume vb ON vb.run = b.run AND vb.kind = b.kind
    WHERE a.steps >= 200 AND b.steps >= 200 AND least(va.tokens, vb.tokens) >= 0.7 * greatest(va.tokens, vb.tokens)  -- else other traffic is in one of them
        AND coalesce(abs(a.commit_len - b.per_request) > 0.04 * a.commit_len, true)  -- a mean over requests: that is aggregation_differs
    UNION ALL
    SELECT run, NULL, 'context growth', 'token counter', ratio * committed, 'steps x batch x accept length', committed, -0.15 * committed, 0.15 * committed, rows, source, line,
        format('the token counter grows by {:.2f} tokens a step over {} steady decode lines, the printed accept length is {:.2f}', ratio * commit_len, rows, commit_len)
    FROM context
    UNION ALL
    -- lines that are missing, or stamped by a collector, move it: shown, not judged
    SELECT run, NULL, 'throughput', 'throughput x time', timed, 'steps x batch x accept length', committed, NULL, NULL, rows, source, line,
        format('throughput x time makes {:,.0f} tokens over {} steady decode lines, steps x batch x accept length {:,.0f}', timed, rows, committed)
    FROM clock WHERE rows >= 8
    UNION ALL
    -- A counter lives as long as the server, and a scrape may come before the end: shown, not judged.
    SELECT c.run, NULL, 'output', 'server counter', c.value, 'client', v.tokens, NULL, NULL, 1, c.source, c.line,
        format('the server counts {:,.0f} generated tokens, the client received {:,.0f}', c.value, v.tokens)
    FROM counter c JOIN (SELECT run, max(tokens) AS tokens FROM volume WHERE kind IN ('request', 'benchmark') GROUP BY run) v USING (run) WHERE c.name LIKE '%generation_tokens_total' AND v.tokens > 0
    UNION ALL
    SELECT c.run, NULL, CASE WHEN c.name LIKE '%accepted%' THEN 'accepted drafts' ELSE 'drafted tokens' END, 'server counter', c.value, 'log lines',
        CASE WHEN c.name LIKE '%accepted%' THEN l.accepted ELSE l.drafted END, NULL, NULL, l.rows, c.source, c.line,
        format('the server counts {:,.0f}, its log lines sum up to {:,}', c.value, CASE WHEN c.name LIKE '%accepted%' THEN l.accepted ELSE l.drafted END)
    FROM counter c JOIN logged l USING (run) WHERE c.name LIKE 'vllm:spec_decode%'
)
SELECT run, request, account, left_side, left_value, right_side, right_value,
    left_value - right_value AS residual,        -- left less right
    least, most,                                 -- what the residual may be; NULL: no bound
    CASE WHEN least IS NOT NULL OR most IS NOT NULL  -- NULL: shown, not judged
         THEN coalesce(left_value - right_value >= least, true) AND coalesce(left_value - right_value <= most, true) END AS balanced,
    rows, source, line,                          -- how many rows it stands on, and the first of them
    told                                         -- the entry in words
FROM entry WHERE left_value IS NOT NULL AND right_value IS NOT NULL;

-- What the run record of a step trace says, typed.
CREATE VIEW setting AS
SELECT run,
    TRY_CAST(max(value) FILTER (key = 'block') AS BIGINT) AS block,
    TRY_CAST(max(value) FILTER (key = 'mask_id') AS BIGINT) AS mask_id,
    TRY_CAST(max(value) FILTER (key = 'vocab') AS BIGINT) AS vocab,
    coalesce(TRY_CAST(max(value) FILTER (key = 'depth_bonus') AS DOUBLE), 0) AS depth_bonus,
    max(CASE WHEN key = 'effective' THEN TRY_CAST(json_extract_string(TRY_CAST(value AS JSON), '$.depth_limit') AS BIGINT) END) AS depth_limit,
    max(CASE WHEN key = 'stop_ids' THEN TRY_CAST(TRY_CAST(value AS JSON) AS BIGINT[]) END) AS stop_ids,
    lower(max(value) FILTER (key = 'dtype')) AS dtype,
    max(CASE WHEN key = 'draft_layers' THEN list_transform(TRY_CAST(TRY_CAST(value AS JSON) AS JSON[]), lambda layer: {
        'window': TRY_CAST(json_extract_string(layer, '$.window') AS BIGINT), 'head_dim': TRY_CAST(json_extract_string(layer, '$.head_dim') AS BIGINT),
        'rope': json_extract_string(layer, '$.rope.kind'), 'theta': TRY_CAST(json_extract_string(layer, '$.rope.theta') AS DOUBLE), 'factor': TRY_CAST(json_extract_string(layer, '$.rope.factor') AS DOUBLE)
    }) END) AS draft_layers,
    max(CASE WHEN key = 'tap_layers' THEN TRY_CAST(TRY_CAST(value AS JSON) AS BIGINT[]) END) AS tap_layers,
    TRY_CAST(max(value) FILTER (key = 'draft_vocab') AS BIGINT) AS draft_vocab,
    bool_or(key = 'simulated_acceptance' AND TRY_CAST(value AS DOUBLE) IS NOT NULL) AS simulated,
    max(CASE WHEN key = 'target_windows' THEN TRY_CAST(TRY_CAST(value AS JSON) AS BIGINT[]) END) AS target_windows
FROM config GROUP BY run;
