-- title    = "The CUDA compiler does not know this GPU's architecture"
-- severity = "critical"
-- family   = "startup"
-- needs    = { problem = ["type"], config = [] }
-- why      = "Kernels that are built at start-up need a toolkit that knows the card: 9.0a from CUDA 12.0, 10.0a and 12.0a from 12.8, later ones from 12.9 or 13. The failure is often wrapped into a capture error whose advice is about memory."
-- fix      = [
--   "Put a newer toolkit first in the path (`nvcc --version` must show it; set CUDA_HOME too), then delete the build caches (~/.cache/flashinfer, ~/.triton, ~/.cache/torch_extensions) and start again.",
--   "Or install prebuilt kernels for this architecture, so that nothing is compiled.",
--   "Leave --mem-fraction-static and --cuda-graph-max-bs alone: memory is not the cause.",
-- ]
-- formula  = "nvcc or ptxas rejects an architecture, or a build that fails, before the server is ready"
-- unlike   = [
--   "A capture error without a compiler's message.",
--   "A kernel that exists but not for this card (kernel_missing_for_gpu).",
-- ]
-- causes   = [
--   { name = "path", cause = "an older toolkit stands first in the path", test = "which nvcc; nvcc --version in the shell that starts the server" },
--   { name = "none", cause = "no toolkit is new enough for the card", test = "prebuilt kernels for this architecture: nothing is compiled then" },
-- ]
-- reports  = ["ggml-org/llama.cpp#23224"]
-- explains = ["start_failed", "kernel_missing_for_gpu", "graph_capture_failed", "server_died"]

WITH refused AS (
    SELECT run, source, line, type, message,
        coalesce(nullif(regexp_extract(message, '((?:compute|sm)_[0-9]+[a-z]?)', 1), ''),
                 nullif(regexp_extract(message, '(?:requires \.target|for target) ''?(sm_[0-9]+[a-z]?)', 1), '')) AS architecture,
        CASE WHEN type IN ('nvcc', 'ptxas') THEN type
             WHEN message ILIKE '%ptxas%' OR message LIKE '%gpu-name%' THEN 'ptxas' ELSE 'nvcc' END AS compiler
    FROM problem
    WHERE fatal AND regexp_matches(message, 'NVCC version [0-9.]+ is too old|Unsupported gpu architecture|is not defined for option .?gpu-name|ptxas.*(?:requires \.target|Unsupported \.version|not supported on \.target)|(?:nvcc|ptxas) ?(?:fatal|error).*(?:compute_|sm_)[0-9]')
),
summed AS (
    SELECT run, arg_min(compiler, (source, line)) AS compiler, arg_min(architecture, (source, line)) AS architecture,
        arg_min(message, (source, line)) AS text, count(*) AS refusals,
        list(cite(source, line) ORDER BY source, line) AS proof
    FROM refused GROUP BY run
),
-- the same failure as the capture or the build reports it
wrapped AS (
    SELECT run, min(shortened(message, 120)) AS message, list(cite(source, line) ORDER BY source, line) AS proof
    FROM problem
    WHERE fatal AND regexp_matches(message, '(?i)capture .{0,20}graph failed|ninja|error building extension')
    GROUP BY run
),
toolkit AS (
    SELECT run, string_agg(DISTINCT key || ' ' || value, ', ' ORDER BY key || ' ' || value) AS versions
    FROM config WHERE regexp_matches(key, '^(?:torch|triton|flashinfer[-_a-z]*|cuda-[a-z-]+|nvidia-cuda-nvcc[a-z0-9-]*)$') AND regexp_matches(value, '^[0-9]+\.')
    GROUP BY run
)
SELECT
    run,
    format('{}{}{}',
        CASE WHEN architecture IS NULL AND text LIKE '%too old%' THEN 'the CUDA toolkit in use is older than a library that builds its kernels at the start wants: ' || shortened(text, 120)
             ELSE format('{} refuses the architecture {}: the CUDA toolkit in use is older than the GPU', compiler, coalesce(architecture, 'of this GPU')) END,
        CASE WHEN w.message ILIKE '%capture%' THEN '. It is reported as a failed graph capture, whose advice about memory is misleading'
             WHEN w.message IS NOT NULL THEN '; the build that stopped is its consequence' ELSE '' END,
        CASE WHEN versions <> '' THEN '. Installed: ' || versions ELSE '' END) AS message,
    architecture, compiler, refusals, shortened(text, 200) AS text, versions,
    first_few(list_concat(s.proof[:3], coalesce(w.proof, [])[:1])) AS lines
FROM summed s LEFT JOIN wrapped w USING (run) LEFT JOIN toolkit USING (run)
