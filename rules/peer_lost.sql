-- title    = "A rank, a node or a process of the server was lost"
-- severity = "critical"
-- family   = "runtime"
-- needs    = { event = [], problem = [], decode = [], prefill = [] }
-- applies  = "server"
-- why      = "Ranks and nodes need each other: when one is gone, the others fail with network errors, health checks or failed transfers, all at once. Those messages name who noticed, not who failed; the first in time is nearest to the cause, and the lost one's own log has it."
-- fix      = [
--   "Find the log of the rank or node that is missing among those that complain: its last line is the cause.",
--   "Without one, ask the system: `dmesg -T | grep -iE 'oom|xid|nvlink'` and the container's state. An exit code of 137 or -9 only says that something sent SIGKILL.",
--   "Where only the health check failed during a long step, raise its limit (SGLANG_HEALTH_CHECK_TIMEOUT, the router's or the probe's timeout).",
-- ]
-- formula  = "network errors of a collective, a process that is gone, a failed health check or failed transfers, with no exception before them that explains it"
-- unlike   = [
--   "Messages after an illegal memory access, an allocation that failed or another exception: consequences.",
--   "Silence before them: the server hung first (server_hung).",
--   "Connections that break while a server is stopped, and transfers that a client aborted.",
--   "A health check that failed during a long prompt, after which decoding went on.",
--   "A prefill node that was exchanged while it owed nobody anything.",
-- ]
-- causes   = [
--   { name = "process", cause = "a rank's process was killed or crashed without a word", test = "dmesg and the container's state at that second; the rank that wrote no error" },
--   { name = "network", cause = "the link between nodes broke or is too slow", test = "nccl-tests all_reduce_perf over the same nodes for an hour, with NCCL_DEBUG=WARN" },
--   { name = "transfer", cause = "a prefill or decode node went away or cannot be reached", test = "the other node's log and health at that second" },
--   { name = "limit", cause = "a health check or a timeout is shorter than a legitimate step", test = "a limit ten times as long: no message" },
-- ]
-- reports  = ["sgl-project/sglang#22511", "sgl-project/sglang#10856", "sgl-project/sglang#12688", "vllm-project/vllm-ascend#7846"]
-- explains = ["start_failed"]
-- params   = { transfers = 3 }

WITH lost AS (
    SELECT run, source, line, time, rank, message AS text, CASE
            WHEN type IN ('Engine core proc', 'Worker proc', 'WorkerProc') THEN 'process' ELSE 'network' END AS what
    FROM problem
    WHERE fatal AND NOT at_start AND follows AND (type IN ('Engine core proc', 'Worker proc', 'WorkerProc', 'DistBackendError', 'DistNetworkError', 'collective operation timeout')
        OR regexp_matches(message, '(?i)NCCL|Connection (?:closed|reset) by peer|remote process exited|recvValue failed|recvBytes'))
    UNION ALL
    SELECT run, source, line, time, rank, concat('a process ended with exit code ', value::BIGINT), 'process' FROM event
    WHERE kind = 'life' AND name = 'crashed with exit code' AND coalesce(value, 0) <> 0
    UNION ALL  -- SGLang's parent hears that a child failed, and nobody said of what
    SELECT run, source, line, time, rank, 'a child process failed, and nothing here says of what', 'process' FROM event
    WHERE kind = 'life' AND name ILIKE 'sigquit' AND run NOT IN (SELECT run FROM problem WHERE fatal)
        AND run NOT IN (SELECT run FROM event WHERE kind = 'life' AND regexp_matches(name, '(?i)crashed|watchdog|health') OR kind = 'crash')
    UNION ALL
    SELECT run, source, line, time, rank, 'health check failed', 'health' FROM event WHERE kind = 'life' AND name = 'Health check failed'
    UNION ALL
    SELECT run, source, line, time, rank, detail, 'transfer' FROM event
    WHERE kind = 'transfer_failed' AND coalesce(value, 1) > 0 AND NOT regexp_matches(detail, '(?i)abort(?:ed)? by|AbortReq|client|cancel')
),
beat AS NOT MATERIALIZED (
    SELECT run, source, line, time FROM decode WHERE NOT coalesce(running > 0 AND tokens_per_s = 0, false) UNION ALL SELECT run, source, line, time FROM prefill
),
latest AS (SELECT run, max(time) AS time FROM beat WHERE run IN (SELECT run FROM lost) GROUP BY run),
served AS (
    SELECT b.run, any_value(l.time) AS time, arg_max(b.source, (b.time, b.source, b.line)) AS source, arg_max(b.line, (b.time, b.source, b.line)) AS line
    FROM beat b JOIN latest l ON l.run = b.run AND (b.time = l.time OR b.time IS NULL) GROUP BY b.run
),
-- Nobody was served any more: transfers may fail for one request, the rest must be the end.
final AS (
    SELECT l.*, s.time AS served_time, s.source AS served_source, s.line AS served_line,
        s.run IS NULL OR coalesce(l.time > s.time, false) OR (coalesce(l.time = s.time, true) AND l.source = s.source AND l.line > s.line) AS over
    FROM lost l LEFT JOIN served s USING (run)
),
stopped AS (
    SELECT run, min(time) AS time, min(line) AS line, min(source) AS source FROM event WHERE kind = 'life' AND regexp_matches(name, '(?i)sigterm|gracefully|shutdown') GROUP BY run
),
kept AS (
    SELECT f.* FROM final f LEFT JOIN stopped t USING (run)
    WHERE (f.over OR f.what = 'transfer') AND NOT (t.run IS NOT NULL AND (coalesce(t.time < f.time, false) OR (t.source = f.source AND t.line < f.line)))
        -- an exception that came first explains it
        AND NOT EXISTS (FROM problem p WHERE p.run = f.run AND p.fatal AND p.killed AND NOT p.follows
            AND (coalesce(p.time < f.time, false) OR (p.source = f.source AND p.line < f.line)))
),
death AS (SELECT run, max(line) AS line FROM event WHERE kind = 'life' AND regexp_matches(name, '(?i)sigquit|crashed|kill_process_tree') GROUP BY run),
summed AS (
    SELECT run, arg_min({'what': what, 'text': text, 'rank': rank, 'time': time, 'place': cite(source, line)}, (time, source, line)) AS first,
        count(*) FILTER (what IN ('network', 'process')) AS breaks, count(*) FILTER (what = 'health') AS failures, count(*) FILTER (what = 'transfer') AS transfers,
        bool_or(regexp_matches(text, '(?i)^los(t|ing) connection with prefill')) AS gone, bool_or(over AND what <> 'transfer') AS over,
        count(DISTINCT rank) AS number, string_agg(DISTINCT rank, ', ' ORDER BY rank) AS ranks, epoch(max(time) FILTER (what = 'health') - min(time) FILTER (what = 'health')) AS failing_s,
        any_value(served_time) AS served_time, any_value(cite(served_source, served_line)) AS served_place, count(served_line) > 0 AS served,
        arg_min(cite(source, line), (time, source, line), 3) AS places
    FROM kept GROUP BY run
)
SELECT
    run,
    CASE WHEN over THEN 'critical' ELSE 'high' END AS severity,
    format('{}{}{}{}{}',
        CASE first.what WHEN 'health' THEN 'the health check failed first' WHEN 'process' THEN 'a process was gone first' WHEN 'transfer' THEN 'transfers between nodes failed' ELSE 'a network error came first' END,
        -- torch prints a clock of its own
        CASE WHEN regexp_matches(first.text, '\[[EWF][0-9]{3,4} [0-9:]{8}') THEN ' at ' || regexp_extract(first.text, '\[[EWF][0-9]{3,4} ([0-9:]{8})', 1)
             WHEN first.time IS NOT NULL THEN strftime(first.time, ' at %H:%M:%S') ELSE '' END,
        CASE WHEN first.rank IS NOT NULL THEN ' on ' || first.rank ELSE '' END,
        CASE WHEN first.what <> 'health' THEN ': ' || shortened(first.text, 140) ELSE '' END,
        concat(CASE WHEN number > 1 THEN format('; {} ranks report errors ({})', number, ranks) ELSE '' END,
            CASE WHEN transfers > 1 THEN format('; {} transfers failed', transfers) ELSE '' END,
            CASE WHEN served AND served_time IS NOT NULL AND first.time > served_time THEN format('; the last report was {:.0f} s before', epoch(first.time - served_time)) ELSE '' END)) AS message,
    CASE WHEN first.what = 'health' AND breaks = 0 THEN ['limit'] WHEN first.what = 'transfer' THEN ['transfer'] WHEN first.what = 'process' THEN ['process'] ELSE [] END AS causes,
    first.what AS first, first.rank AS rank, ranks, breaks, failures, transfers,
    CASE WHEN served AND NOT list_contains(places, served_place) THEN list_append(places, served_place) ELSE places END AS lines
FROM summed LEFT JOIN death d USING (run)
WHERE breaks > 0 OR gone OR transfers >= $transfers
    OR (failures > 0 AND (d.run IS NOT NULL OR failures >= 3 OR failing_s >= 60))
