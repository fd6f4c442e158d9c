-- The rows of a run ($run) that can be compared, of every kind, each with what it sums up: a metric
-- is a sum over a sum. What comes first is not compared: warm-up steps, first and idle intervals,
-- intervals with a prompt in them, the first request of many.

CREATE OR REPLACE TEMP TABLE compared AS
WITH self AS (SELECT run, coalesce(speculates, false) AS speculates, log_interval FROM run WHERE run = $run),
traced AS (
    SELECT s.*, min(ctx_len) OVER (PARTITION BY request) AS length, row_number() OVER (ORDER BY source, line) AS nth,
        coalesce(commit_len, accepted_drafts + 1, len(accepted)) AS committed, greatest(coalesce(batch, 1), 1) AS sharing
    FROM step s WHERE run = $run AND NOT coalesce(warmup, false)
),
step_time AS (SELECT source, line, any_value(ms) AS ms FROM time_sample WHERE run = $run AND kind = 'step' AND stage = 'step' GROUP BY source, line),
-- Tensor-parallel ranks repeat each other, data-parallel ones serve side by side.
replica AS (
    SELECT rank AS rank_key, count(*) OVER () AS replicas
    FROM (SELECT min(coalesce(rank, '')) AS rank FROM decode WHERE run = $run GROUP BY regexp_extract(coalesce(rank, ''), 'DP[0-9]+'))
),
-- A report of SGLang stands for so many steps, one of vLLM for so many seconds.
reported AS (
    SELECT d.*, r.replicas, f.log_interval, CASE WHEN f.log_interval > 0 THEN running * coalesce(commit_len, 1) * f.log_interval / tokens_per_s ELSE 1 END AS seconds
    FROM decode d JOIN self f USING (run) JOIN replica r ON r.rank_key = coalesce(d.rank, '')
    WHERE usable AND NOT after_prefill AND tokens_per_s > 0 AND (commit_len IS NOT NULL OR log_interval IS NULL)
),
answered AS (
    SELECT r.*, f.speculates, row_number() OVER w AS nth, count(*) OVER () AS many,
        coalesce(CASE WHEN e2e_s > ttft_s THEN e2e_s - ttft_s END, CASE WHEN tokens_per_s > 0 THEN (completion_tokens - 1) / tokens_per_s END) AS decode_s
    FROM request r JOIN self f USING (run)
    WHERE coalesce(finish, '') NOT ILIKE '%abort%' AND coalesce(finish, '') NOT ILIKE '%error%'
    WINDOW w AS (ORDER BY source, line)
),
timed AS (SELECT *, bool_or(decode_s IS NOT NULL) OVER () AS split FROM answered WHERE nth > 1 OR many < 10)
SELECT 'step' AS kind, nth, t.source, t.line, request AS unit, request AS name, NULL::VARCHAR AS prompt, length, ctx_len - length AS pos, ctx_len::DOUBLE AS ctx,
    1.0 AS steps, committed::DOUBLE AS committed, CASE WHEN m.ms > 0 THEN 1.0 END AS timed, m.ms AS ms,
    CASE WHEN m.ms > 0 THEN committed::DOUBLE END AS tokens, m.ms / sharing / 1000 AS seconds,
    NULL::DOUBLE AS firsts, NULL::DOUBLE AS first_ms, NULL::DOUBLE AS gaps, NULL::DOUBLE AS gap_ms,
    CASE WHEN committed IS NOT NULL THEN list_transform(range(1, 9), lambda k: (committed > k)::DOUBLE) END AS reach
FROM traced t LEFT JOIN step_time m ON m.source = t.source AND m.line = t.line
UNION ALL
SELECT 'decode', row_number() OVER (ORDER BY source, line), source, line, NULL, NULL, NULL, NULL, NULL, ctx_len,
    CASE WHEN commit_len > 0 THEN tokens_per_s * seconds / commit_len END, CASE WHEN commit_len > 0 THEN tokens_per_s * seconds END,
    CASE WHEN commit_len > 0 AND running > 0 THEN tokens_per_s * seconds / commit_len / running END, CASE WHEN commit_len > 0 AND running > 0 THEN 1000 * seconds END,
    tokens_per_s * seconds, seconds / replicas, NULL, NULL, NULL, NULL, NULL
FROM reported
UNION ALL
SELECT 'request', nth, source, line, nth::VARCHAR, request, prompt, prompt_tokens, NULL, prompt_tokens,
    CASE WHEN completion_tokens > 1 THEN CASE WHEN verify_steps > 0 THEN verify_steps WHEN NOT speculates THEN completion_tokens - 1 END END,
    CASE WHEN completion_tokens > 1 AND (verify_steps > 0 OR NOT speculates) THEN completion_tokens - 1 END,
    CASE WHEN completion_tokens > 1 AND decode_s > 0 THEN CASE WHEN verify_steps > 0 THEN verify_steps WHEN NOT speculates THEN completion_tokens - 1 END END,
    CASE WHEN completion_tokens > 1 AND decode_s > 0 AND (verify_steps > 0 OR NOT speculates) THEN 1000 * decode_s END,
    CASE WHEN split THEN CASE WHEN decode_s > 0 THEN completion_tokens - 1 END WHEN e2e_s > 0 THEN completion_tokens END,
    CASE WHEN split THEN CASE WHEN completion_tokens > 1 AND decode_s > 0 THEN decode_s END WHEN completion_tokens > 0 AND e2e_s > 0 THEN e2e_s END,
    CASE WHEN ttft_s > 0 THEN 1 END, CASE WHEN ttft_s > 0 THEN 1000 * ttft_s END,
    CASE WHEN completion_tokens > 1 AND decode_s > 0 THEN completion_tokens - 1 END, CASE WHEN completion_tokens > 1 AND decode_s > 0 THEN 1000 * decode_s END,
    CASE WHEN len(histogram) > 1 THEN list_transform(range(1, 9), lambda k: coalesce(list_sum(histogram[k + 1:]), 0) / list_sum(histogram) * verify_steps) END
FROM timed
UNION ALL
SELECT 'acceptance', row_number() OVER (ORDER BY source, line), source, line, NULL, NULL, NULL, NULL, NULL, ctx_len,
    n, n * c, CASE WHEN step_ms > 0 THEN n END, CASE WHEN step_ms > 0 THEN n * step_ms END, tokens_per_s, CASE WHEN tokens_per_s > 0 THEN 1 END,
    NULL, NULL, NULL, NULL, list_transform(positions[:8], lambda p: CASE WHEN p BETWEEN 0 AND 1 THEN p * n END)
FROM (SELECT *, coalesce(nullif(steps, 0), CASE WHEN drafted_tokens > 0 AND commit_len > 1 THEN accepted_tokens / (commit_len - 1) END, 1) AS n,
          coalesce(commit_len, accepted_drafts + 1) AS c FROM acceptance WHERE run = $run)
UNION ALL
SELECT 'benchmark', row_number() OVER (ORDER BY source, line), source, line, row_number() OVER (ORDER BY source, line)::VARCHAR, NULL, NULL, NULL, NULL, NULL,
    CASE WHEN accept_len > 0 THEN coalesce(output_tokens, 1) / accept_len END, CASE WHEN accept_len > 0 THEN coalesce(output_tokens, 1) END,
    CASE WHEN coalesce(step_ms, 1000 * step_s) > 0 THEN 1 END, coalesce(step_ms, 1000 * step_s),
    CASE WHEN output_tokens > 0 AND duration_s > 0 THEN output_tokens ELSE tokens_per_s END,
    CASE WHEN output_tokens > 0 AND duration_s > 0 THEN duration_s WHEN tokens_per_s > 0 THEN 1 END,
    CASE WHEN coalesce(mean_ttft_ms, median_ttft_ms) > 0 THEN coalesce(completed, 1) END, coalesce(completed, 1) * coalesce(mean_ttft_ms, median_ttft_ms),
    CASE WHEN coalesce(mean_itl_ms, mean_tpot_ms, median_itl_ms, median_tpot_ms) > 0 THEN coalesce(output_tokens, 1) END,
    coalesce(output_tokens, 1) * coalesce(mean_itl_ms, mean_tpot_ms, median_itl_ms, median_tpot_ms), NULL
FROM benchmark WHERE run = $run;
