-- title    = "A kernel does not exist for this GPU"
-- severity = "critical"
-- family   = "startup"
-- needs    = { problem = ["type"], config = [] }
-- why      = "A kernel library holds code for the architectures it was built for. A GPU that is older, newer or of another family (workstation Blackwell 12.x is not data-centre Blackwell 10.x) starts, then dies at the first capture or request. A library that does not know the card may even take 12.0 for less than 7.5."
-- fix      = [
--   "Choose another backend for the part that failed: `--attention-backend triton` for the target, `--speculative-draft-attention-backend` for the draft, `--moe-runner-backend` or `--sampling-backend pytorch` for the rest.",
--   "Take a build of the kernel package that lists this architecture; check it with `python -c 'import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list())'`.",
--   "Where the message asks for an older architecture than the GPU has, the library is too old to know the card, or TORCH_CUDA_ARCH_LIST is set wrongly: update it, or unset the variable.",
-- ]
-- formula  = "no kernel image, an unsupported architecture, or an assertion that lists allowed backends"
-- unlike   = [
--   "A compiler that is too old: then nothing was built (compiler_too_old).",
--   "A capability printed in a banner.",
-- ]
-- causes   = [
--   { name = "build", cause = "the package holds no code for this architecture", test = "torch.cuda.get_arch_list() against torch.cuda.get_device_capability()" },
--   { name = "backend", cause = "the backend that was chosen is for another family of cards", test = "--attention-backend triton for target and draft" },
-- ]
-- reports  = ["sgl-project/sglang#24633", "sgl-project/sglang#35080", "sgl-project/sglang#13061"]
-- explains = ["start_failed", "graph_capture_failed", "speculative_assertion", "server_died"]

-- Also at the first request: a kernel is looked for when it is needed.
WITH cause AS (SELECT run, source, line, type, message, at_start FROM problem WHERE cause),
named AS (
    SELECT *,
        regexp_extract(message, '(?i)((?:sm_?|compute_|compute capability (?:of )?)[0-9]{1,3}(?:\.[0-9])?[af]?)', 1) AS architecture,
        coalesce(nullif(regexp_extract(message, '(?i)^(?:Capture cuda graph failed: )?([A-Za-z0-9_.-]+(?: [A-Za-z0-9_.-]+){0,3}?) (?:failed with|requires?|only supports?|is (?:only |not )?supported|does not support)', 1), ''),
            nullif(regexp_extract(message, 'in function ''(\w+)''', 1), ''),
            regexp_extract(message, '(?i)\b(deep_?gemm|flashinfer|flash_?mla|cutlass|flash_?attn)\w*/', 1)) AS part
    FROM cause
    WHERE regexp_matches(message, 'no kernel image is available|device kernel image is invalid|invalid device function|No supported CUDA architectures found|Arch conditional MMA|not compiled for (?:this|your|the current) (?:GPU|device|arch)|(?i)only supports? (?:Turing|Ampere|Ada|Hopper|Blackwell)|not supported on (?:this|your|the current) (?:GPU|device|hardware)|not supported on (?:arch|CUDA arch|compute capab|Blackwell|Hopper|Ampere|Turing)|only supported (?:on|for) [^.]{0,60}(?:GPU|sm_?[0-9]|Hopper|Blackwell|Ampere)|requires? (?:an? )?(?:NVIDIA )?(?:Turing|Ampere|Ada|Hopper|Blackwell)|requires? GPUs? with (?:sm|compute)|unsupported (?:CUDA |GPU )?arch(?:itecture)?\b|out of resource: shared memory')
        -- "sm_120 is not supported", "requires compute capability >= 8.0", "supports sm75 and above"
        OR (regexp_matches(message, '(?i)\bsm ?_?(?:>=|<=)? ?[0-9]{2,3}|compute_[0-9]{2}|compute capability|device capability|CUDA arch')
            AND regexp_matches(message, '(?i)not (?:yet |currently )?supported|unsupported|requires?|only supports?|supports? only|or (?:higher|above|newer|later)|and (?:higher|above|newer|later)|less than|is not compatible|at least|expected|must be|>=|<'))
),
-- What a compiler refuses is compiler_too_old's, and memory is never short for lack of a kernel.
told AS (
    SELECT * FROM named
    WHERE NOT regexp_matches(message, 'nvcc|ptxas|gpu-name|Unsupported gpu architecture|(?i)out of memory|undefined symbol|cannot open shared object|mismatches the version')
        AND run NOT IN (
            SELECT run FROM problem
            WHERE fatal AND regexp_matches(message, 'Unsupported gpu architecture|is not defined for option|(?:nvcc|ptxas) ?(?:fatal|error)')
        )
),
asked AS (
    SELECT run, string_agg(DISTINCT key || ' ' || value, ', ' ORDER BY key || ' ' || value) AS backends
    FROM config
    WHERE regexp_matches(key, '^(?:attention_backend|decode_attention_backend|prefill_attention_backend|speculative_draft_attention_backend|moe_runner_backend|sampling_backend)$')
        AND value NOT IN ('None', '', 'auto')
    GROUP BY run
)
SELECT
    run,
    format('{} died because {}has no kernel for this GPU: {}{}{}',
        CASE WHEN at_start THEN 'the start' ELSE 'the server' END,
        CASE WHEN part <> '' AND NOT part ILIKE '%capability%' THEN part || ' ' ELSE 'a library ' END,
        rtrim(shortened(message, 200), '.'),
        -- a card that such a message turns away wrongly is newer than the limit it states
        CASE WHEN regexp_matches(message, '(?i)(?:or|and) (?:higher|above|newer|later)|>=|at least|less than') AND NOT message LIKE '%<=%' AND NOT regexp_matches(message, '(?i)your .{0,60} has compute capability')
             THEN '. If the GPU is newer than this limit, the library does not know it or reads its number wrongly' ELSE '' END,
        CASE WHEN backends <> '' THEN ' (asked for: ' || backends || ')' ELSE '' END) AS message,
    nullif(architecture, '') AS architecture, nullif(part, '') AS part, backends, type AS exception,
    [cite(source, line)] AS lines
FROM told LEFT JOIN asked USING (run)
