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
    draft_tokens INTEGER,       -- verify width per request, bonus row included
    draft_steps INTEGER,
    budget INTEGER,             -- tree nodes without the root
    top_k INTEGER,              -- candidates per depth
    block INTEGER,              -- drafter block size; it predicts block - 1 depths
    page_size INTEGER,
    log_interval INTEGER,       -- decode steps between two decode lines
    ready BOOLEAN,              -- said that it was ready, or served
    served BOOLEAN,             -- did some work: decoded, stepped, answered, was measured
    rate_formula VARCHAR,       -- which definition wrote `accept rate`: see derive.sql
    rate_width INTEGER,         -- and what it divided by
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
    accepted_drafts DOUBLE,  -- A = C - 1
    ctx_len DOUBLE,          -- tokens / running
    step_ms DOUBLE,          -- running x C / throughput: computed, not measured
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
    verify_steps BIGINT,     -- of all requests together
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

-- Every commit length of a run, whatever kind of row it stands in.
CREATE TABLE commit_sample (
    run VARCHAR, source INTEGER, line BIGINT, time TIMESTAMP,
    kind VARCHAR,            -- decode, acceptance, request, step, benchmark, state
    steps DOUBLE,            -- how many steps it stands for, as far as known
    commit_len DOUBLE,       -- C
    ctx_len DOUBLE,
    running DOUBLE,
    tokens_per_s DOUBLE,
    drafted DOUBLE           -- tokens drafted a step, as far as known
);

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

-- Every time of a step, with the context it was taken at.
CREATE TABLE time_sample (
    run VARCHAR, source INTEGER, line BIGINT,
    kind VARCHAR,            -- step, acceptance, decode, state
    measured BOOLEAN,        -- false: computed as running x C / throughput
    ctx_len DOUBLE, running DOUBLE,
    stage VARCHAR,           -- step (the whole), or a stage: draft, verify, commit, ...
    ms DOUBLE
);

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

CREATE VIEW chain AS         -- peers of the same model that are known to verify a chain
SELECT p.run, p.against FROM peer p JOIN run r ON r.run = p.against
LEFT JOIN hindrance h ON h.run = p.run AND h.against = p.against AND h.what = 'model'
WHERE h.run IS NULL AND r.speculates AND NOT r.tree AND r.algorithm IS NOT NULL;

-- Published commit lengths, from published.csv.
CREATE TABLE published (
    target VARCHAR,          -- name of the target model, in lower case, without its maker
    algorithm VARCHAR, block INTEGER, budget INTEGER,
    dataset VARCHAR, temperature DOUBLE, thinking BOOLEAN,
    commit_len DOUBLE,       -- C, mean over responses
    speed_up DOUBLE,         -- over plain decoding, NULL if not told
    source VARCHAR           -- who published it
);

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
