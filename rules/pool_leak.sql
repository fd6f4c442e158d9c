-- title    = "Slots of a pool are lost, or counted twice"
-- severity = "critical"
-- family   = "capacity"
-- needs    = { run = ["server"], event = [], problem = [], decode = [], prefill = [], request = [] }
-- applies  = "server OR run IN (SELECT run FROM problem)"
-- why      = "When a server is idle, every slot of a pool is free, held by the prefix cache, or locked. Where the sum is not the size of the pool, a request ended without giving back what it took (or gave it back twice): the server stops at its own check, or has less room with every request."
-- fix      = [
--   "Update: most reports of this kind end with a fix of one path (speculation with pages, aborted requests, a hybrid cache).",
--   "Until then leave out one of the parts that share the pool: --page-size 1, --disable-radix-cache, the hierarchical cache, mixed chunks, speculation.",
--   "Report it with the arithmetic quoted here, the page size, the draft tokens and what the last requests did (abort, stop inside a block, retraction).",
-- ]
-- formula  = "deficit = total - (available + evictable + protected + held) per pool, 0 when idle; or the pool's use at the first prompt after an idle gap, minus that prompt, which rises"
-- sides    = { "slots accounted for" = "accounted", "slots of the pool" = "total", "pool in use, last" = "last_share", "pool in use, first" = "first_share" }
-- unlike   = [
--   "Usage that stays up because of the prefix cache: such slots are evictable and count as free.",
--   "Usage that rises with one long prompt that is computed in chunks, or with a conversation that grows.",
--   "Leaked semaphores or shared memory in Python's warnings at the shutdown.",
-- ]
-- causes   = [
--   { name = "over_allocation", cause = "slots that were reserved for drafts are not given back when a request ends inside a block", test = "the same requests with speculation off: nothing is lost, so it is the speculative path" },
--   { name = "page_rounding", cause = "the last page of a request is rounded in one place and not in the other", test = "--page-size 1: the deficit is gone" },
--   { name = "lock_not_released", cause = "an aborted, retracted or failed request leaves its prefix locked or its slots behind", test = "the same requests without aborts (and --disable-radix-cache): the deficit is gone" },
--   { name = "counted_twice", cause = "slots are in the free list and in the prefix cache at once: two owners may write to them", test = "--disable-radix-cache, or without mixed chunks: the surplus is gone" },
-- ]
-- reports  = ["sgl-project/sglang#7130", "sgl-project/sglang#27789", "sgl-project/sglang#6888", "sgl-project/sglang#11970", "sgl-project/sglang#16067"]
-- explains = ["start_failed", "throughput_decays_with_uptime", "retraction_storm", "server_died"]
-- params   = { gap_s = 30.0, points = 8, share = 0.05 }

-- The server's own check: an exception or a warning, with the figures of one pool or of several.
WITH said AS (
    SELECT run, source, line, rank, coalesce(message, '') AS text, true AS stops FROM problem
    WHERE regexp_matches(coalesce(message, ''), '(?i)(memory|mem|pool) leak detected')
    UNION ALL
    SELECT run, source, line, rank, coalesce(detail, ''), false FROM event WHERE kind = 'leak'
),
-- A check prints up to five lines; the one that says `leak` names the check.
checked AS (
    SELECT s.*, h.line AS head, h.stops AS head_stops
    FROM said s ASOF LEFT JOIN (SELECT * FROM said WHERE regexp_matches(text, '(?i)leak detected')) h
        ON h.run = s.run AND h.source = s.source AND h.line <= s.line + 1  -- the oldest form puts the figures first
),
figure AS (  -- one row for each pool of a line
    SELECT run, source, line, head, head_stops, text, pool FROM (
        SELECT *, CASE
            WHEN text LIKE '%req_to_token_pool mem%' OR text ILIKE '%memory pool leak%' THEN ['request']
            WHEN regexp_matches(text, '\b(mamba|swa|full)_available_size') THEN regexp_extract_all(text, '\b(mamba|swa|full)_available_size', 1)
            WHEN regexp_matches(text, '\[[a-z]+[^\]]*\] (total|expected)=') THEN regexp_extract_all(text, '\[([a-z]+[^\]]*)\] (?:total|expected)=', 1)
            ELSE ['token'] END AS pools
        FROM checked WHERE head IS NOT NULL AND line <= head + 4
    ), unnest(pools) AS one(pool)
),
read AS (
    SELECT run, source, line, head, head_stops, pool,
        CASE WHEN pool IN ('mamba', 'swa', 'full') AND regexp_matches(text, pool || '_available_size=') THEN
            {'total': CASE pool WHEN 'mamba' THEN regexp_extract(text, 'mamba_pool\.size=([0-9]+)', 1)
                                ELSE coalesce(nullif(regexp_extract(text, pool || '_tokens_per_layer=([0-9]+)', 1), ''), regexp_extract(text, 'allocator\.size=([0-9]+)', 1)) END,
             'available': regexp_extract(text, pool || '_available_size=([0-9]+)', 1), 'evictable': regexp_extract(text, pool || '_evictable_size=([0-9]+)', 1),
             'protected': regexp_extract(text, pool || '_protected_size\(\)=([0-9]+)', 1), 'held': '0', 'uncached': '0'}
        WHEN pool NOT IN ('token', 'request') THEN
            {'total': regexp_extract(text[strpos(text, '[' || pool || ']'):], '(?:total|expected)=([0-9]+)', 1),
             'available': regexp_extract(text[strpos(text, '[' || pool || ']'):], 'avail(?:able)?=([0-9]+)', 1),
             'evictable': regexp_extract(text[strpos(text, '[' || pool || ']'):], 'evict(?:able)?=([0-9]+)', 1),
             'protected': regexp_extract(text[strpos(text, '[' || pool || ']'):], 'protected=([0-9]+)', 1),
             'held': regexp_extract(text[strpos(text, '[' || pool || ']'):], 'session_held=([0-9]+)', 1),
             'uncached': regexp_extract(text[strpos(text, '[' || pool || ']'):], 'uncached=([0-9]+)', 1)}
        ELSE  -- without `evictable` the available ones are the sum of both
            {'total': regexp_extract(text, '(?:max_total_num_tokens?|total_size|vs self\.max_total_num_tokens)=([0-9]+)', 1),
             'available': coalesce(nullif(regexp_extract(text, '\bavailable_size=([0-9]+)', 1), ''), regexp_extract(text, 'total_tokens=([0-9]+)', 1)),
             'evictable': regexp_extract(text, '\bevictable_size=([0-9]+)', 1),
             'protected': CASE WHEN text LIKE '%total_tokens=%' THEN '0' ELSE regexp_extract(text, '\bprotected_size=([0-9]+)', 1) END,
             'held': coalesce(nullif(regexp_extract(text, 'session_held=([0-9]+)', 1), ''), '0'), 'uncached': '0'}
        END AS f
    FROM figure
),
counted AS (
    SELECT run, source, line, head, head_stops, pool, TRY_CAST(f.total AS BIGINT) AS total, TRY_CAST(f.available AS BIGINT) AS available,
        coalesce(TRY_CAST(f.evictable AS BIGINT), 0) AS evictable, coalesce(TRY_CAST(f.protected AS BIGINT), 0) AS protected,
        coalesce(TRY_CAST(f.held AS BIGINT), 0) + coalesce(TRY_CAST(f.uncached AS BIGINT), 0) AS held
    FROM read
),
deficit AS (
    SELECT *, total - available - evictable - protected - held AS missing
    FROM counted WHERE total > 0 AND available IS NOT NULL
),
-- All ranks print the same check. Of a run the first check counts, and in it the pool that misses most.
first_check AS (
    SELECT run, min({'source': source, 'line': head}) AS place, bool_or(head_stops) AS stops, count(DISTINCT (source, head)) AS checks
    FROM checked WHERE head IS NOT NULL GROUP BY run
),
told AS (
    SELECT c.run, c.place, c.stops, c.checks, d.pool, d.total, d.available, d.evictable, d.protected, d.held, d.missing, d.line AS figures_line,
        count(*) FILTER (d.missing <> 0) OVER (PARTITION BY c.run) AS pools_off
    FROM first_check c LEFT JOIN deficit d ON d.run = c.run AND d.source = c.place.source AND d.head = c.place.line
    QUALIFY row_number() OVER (PARTITION BY c.run ORDER BY d.missing <> 0 DESC NULLS LAST, d.pool <> 'request' DESC, abs(d.missing) DESC NULLS LAST, d.line) = 1
),
-- What it may be a multiple of: pages, verify rows, requests. Divisors below 2 say nothing.
finished AS (
    SELECT run, max(requests) AS requests FROM (
        SELECT run, count(*) AS requests FROM request GROUP BY run
        UNION ALL SELECT run, sum(new_requests) FROM prefill GROUP BY run
    ) GROUP BY run
),
related AS (
    SELECT t.*, r.page_size, r.draft_tokens, r.speculates, f.requests,
        CASE WHEN pool IN ('mamba', 'request') THEN NULL WHEN r.page_size > 1 AND missing <> 0 THEN missing % r.page_size = 0 END AS whole_pages
    FROM told t JOIN run r USING (run) LEFT JOIN finished f USING (run)
),
said_so AS (
    SELECT run, stops,
        CASE WHEN missing IS NULL THEN format('the server''s own check finds a leak in its pools{}', CASE WHEN checks > 1 THEN format(', {} times', checks) ELSE '' END)
        ELSE concat(
            CASE pool WHEN 'token' THEN 'KV pool' WHEN 'request' THEN 'request slots' WHEN 'mamba' THEN 'state slots' ELSE pool || ' pool' END,
            format(': {} available{}{}{}{}, but the pool has {}: ', available,
                CASE WHEN evictable > 0 THEN format(' + {} evictable', evictable) ELSE '' END, CASE WHEN protected > 0 THEN format(' + {} protected', protected) ELSE '' END,
                CASE WHEN held > 0 THEN format(' + {} held', held) ELSE '' END, CASE WHEN evictable + protected + held > 0 THEN format(' = {}', available + evictable + protected + held) ELSE ' or evictable' END, total),
            CASE WHEN missing > 0 THEN format('{} are lost', missing) WHEN missing < 0 THEN format('{} are counted twice', -missing) ELSE 'it adds up, and still the check failed' END,
            CASE WHEN whole_pages THEN format(' ({} pages of {})', abs(missing) // page_size, page_size)
                 WHEN whole_pages IS NOT NULL THEN format(' (no whole number of pages of {})', page_size) ELSE '' END,
            CASE WHEN requests > 1 AND missing > requests AND missing % requests = 0 THEN format(', {} for each of {} requests', missing // requests, requests)
                 WHEN requests > 1 AND missing = requests THEN format(', as many as requests ({})', requests) ELSE '' END,
            CASE WHEN pools_off > 1 THEN format('; {} pools are off', pools_off) ELSE '' END,
            CASE WHEN stops THEN '; the server stops there' ELSE '' END) END AS message,
        CASE WHEN missing < 0 THEN ['counted_twice'] WHEN protected > 0 THEN ['lock_not_released']
             WHEN NOT whole_pages THEN ['page_rounding'] WHEN NOT coalesce(speculates, false) THEN ['lock_not_released'] ELSE ['over_allocation'] END AS causes,
        pool, total, available, evictable, protected, missing, page_size, checks,
        list_distinct([cite(place.source, place.line), cite(place.source, coalesce(figures_line, place.line))]) AS lines
    FROM related
),
-- Without a check: the first prompt after an idle gap finds the pool empty, but for itself. Where
-- what is there besides rises from gap to gap, it belongs to nobody.
spoke AS (
    SELECT run, source, line, time, rank FROM decode UNION ALL SELECT run, source, line, time, rank FROM prefill
),
waited AS (
    SELECT *, epoch(time) - epoch(lag(time) OVER (PARTITION BY run, source, rank ORDER BY line)) AS gap_s FROM spoke
),
pool AS (
    SELECT run, max(value) AS tokens FROM event WHERE kind = 'capacity' GROUP BY run
),
base AS (
    SELECT p.run, p.source, p.line, p.time, p.rank,
        greatest(0, p.usage * c.tokens - p.new_tokens - coalesce(p.cached_tokens, 0)) / c.tokens AS share,
        row_number() OVER (PARTITION BY p.run, p.source, p.rank ORDER BY p.line) AS nth
    FROM prefill p JOIN waited w ON w.run = p.run AND w.source = p.source AND w.line = p.line
    JOIN pool c ON c.run = p.run
    WHERE w.gap_s >= $gap_s AND p.running = 0 AND coalesce(p.queued, 0) = 0 AND p.usage IS NOT NULL AND p.new_tokens IS NOT NULL
        AND coalesce(p.bootstrapping, p.inflight) IS NULL  -- a prefill node holds what it hands over
),
stepped AS (
    SELECT *, share - lag(share) OVER (PARTITION BY run, source, rank ORDER BY line) AS rise FROM base
),
creeping AS (
    SELECT run, count(*) AS points, arg_min(share, line) AS first_share, arg_max(share, line) AS last_share,
        count(*) FILTER (rise < -0.005) AS falls, count(*) FILTER (rise > 0.005) AS rises,
        [arg_min(cite(source, line), line), arg_max(cite(source, line), line)] AS lines
    FROM stepped GROUP BY run, source, rank
    HAVING count(*) >= $points AND last_share - first_share >= $share AND falls = 0 AND rises >= 3
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY last_share - first_share DESC, rank) = 1
)
SELECT run, message, CASE WHEN NOT stops THEN 'high' END AS severity, causes, pool, total, available, evictable, protected, missing, total - missing AS accounted, page_size, checks,
    NULL::DOUBLE AS first_share, NULL::DOUBLE AS last_share, lines
FROM said_so
UNION ALL
SELECT run,
    format('after {} idle gaps the pool is {:.0f} % full before the first prompt, where it was {:.0f} %: nothing that was taken comes back', points, 100 * last_share, 100 * first_share),
    'high', ['lock_not_released', 'over_allocation'], 'token', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, first_share, last_share, lines
FROM creeping WHERE run NOT IN (SELECT run FROM said_so)
