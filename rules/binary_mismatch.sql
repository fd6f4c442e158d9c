-- title    = "A compiled package was built for another torch or CUDA"
-- severity = "critical"
-- family   = "startup"
-- needs    = { problem = ["type"], config = [], event = [] }
-- why      = "A compiled package (kernels, attention, grammar) fits only the torch and the CUDA that it was built for. The loader says which name it misses; messages that follow (no module, another GPU, reinstall) come from the same cause."
-- fix      = [
--   "List what is installed: `pip list | grep -iE 'torch|sgl|flashinfer|vllm|nvidia'`, and `nvidia-smi` for the driver.",
--   "Install server, kernel package and torch together, in one command and from one index, so that all carry the same CUDA suffix; a kernel package upgraded alone brings the mismatch back.",
--   "Where the missing name starts with cu, cuda or nccl: update the driver or that library instead; the Python packages fit each other.",
-- ]
-- formula  = "an undefined symbol, or a library that was built for another version, before the server is ready"
-- sides    = { "CUDA of the toolkit" = "toolkit_cuda", "CUDA torch was built for" = "torch_cuda" }
-- unlike   = [
--   "A file or module that is not there at all (module_missing).",
--   "Python's second attempt to import the same package under another name.",
-- ]
-- causes   = [
--   { name = "torch", cause = "the package was built for another torch: the missing name is in the namespace of torch or c10", test = "pip list in the same environment: kernel package and torch carry different CUDA suffixes or releases" },
--   { name = "driver", cause = "the driver or CUDA runtime is too old: the missing name begins with cu", test = "nvidia-smi: its CUDA version is below the suffix of torch" },
-- ]
-- reports  = ["sgl-project/sglang#5100", "sgl-project/sglang#18203", "sgl-project/sglang#8131", "sgl-project/sglang#30562"]
-- explains = ["start_failed", "module_missing", "kernel_missing_for_gpu", "graph_capture_failed", "server_died"]

WITH died AS (SELECT run, source, line, type, message FROM problem WHERE cause AND at_start),
-- A compiled part that could not be imported is missed later, by the first who calls it.
cause AS (
    FROM died
    UNION ALL
    SELECT e.run, e.source, e.line, d.type, e.detail FROM event e JOIN died d USING (run)
    WHERE e.kind = 'import_failed' AND d.message LIKE '%_OpNamespace%'
    QUALIFY row_number() OVER (PARTITION BY e.run ORDER BY e.source, e.line) = 1
),
named AS (
    SELECT *,
        regexp_extract(message, 'undefined symbol: ?([A-Za-z0-9_$@.]+)', 1) AS symbol,
        regexp_extract(message, '(lib[A-Za-z0-9_+-]+\.so[.0-9]*): cannot open shared object', 1) AS library,
        coalesce(nullif(regexp_extract(message, '(?:site|dist)-packages/([A-Za-z0-9_-]+)[^ :]*\.so', 1), ''),
                 regexp_extract(message, '/([A-Za-z0-9_-]+)/(?:sm[0-9]+/)?[^/ :]+\.so', 1)) AS package
    FROM cause
    WHERE regexp_matches(message, 'undefined symbol|GLIBCXX_[0-9.]+.{0,3} not found|CXXABI_[0-9.]+.{0,3} not found|mismatches the version that was used to compile|[Dd]etected CUDA version|driver version is insufficient|NVIDIA driver on your system is too old|PTX was compiled with an unsupported toolchain|unsupported display driver|forward compatibility was attempted|operator torchvision::\w+ does not exist|Torch not compiled with CUDA|Could not load any common_ops')
        -- a library of CUDA or torch; others are system packages that were never installed
        OR regexp_matches(message, 'lib(?:cuda|cudart|cublas\w*|cudnn\w*|cusparse\w*|cusolver|cufft|curand|nvrtc|nvJitLink|nvshmem\w*|nccl|torch\w*|c10\w*)[-.0-9a-z]*\.so[.0-9]*: cannot open shared object')
),
package AS (
    SELECT run, string_agg(DISTINCT key || ' ' || value, ', ' ORDER BY key || ' ' || value) AS versions,
        any_value(value) FILTER (key IN ('torch', 'PyTorch')) AS torch,
        list_sort(list_distinct(list(nullif(regexp_extract(value, '[+.](cu[0-9]{2,3})', 1), '')) FILTER (value LIKE '%cu%'))) AS suffixes
    FROM config
    WHERE regexp_matches(key, '^(?:torch|PyTorch|torchvision|sglang|sgl[-_]kernel|sglang-kernel|vllm|flashinfer[-_a-z]*|triton|xgrammar|nvidia-[a-z0-9-]+|cuda-[a-z-]+)$')
        AND regexp_matches(value, '^[0-9]+\.')
    GROUP BY run
),
told AS (
    SELECT n.*, p.versions, p.suffixes, coalesce(' ' || p.torch, ' one') AS torch
    FROM named n LEFT JOIN package p USING (run)
),
judged AS (
    SELECT *, CASE
        WHEN regexp_matches(symbol, '^_ZN?K?N?K?3c10') THEN 'the name is in the c10 namespace, so the library was built for another torch than the installed' || torch
        WHEN regexp_matches(symbol, '^_ZT?[A-Z]*?N?K?(?:2at|5torch|6caffe2)') THEN 'the name is in the torch namespace, so the library was built for another torch than the installed' || torch
        WHEN regexp_matches(symbol, '^(?:cu[A-Z]|nvml)') THEN 'the name belongs to the CUDA driver, which is older than what the library was built for'
        WHEN regexp_matches(symbol, '^(?:cuda[A-Z]|cublas|cudnn|cusparse|nvrtc|nccl|__nvJitLink|__cudaRegister)') THEN 'the name belongs to a CUDA library; the one that is loaded is older than what the package was built for'
        WHEN regexp_matches(symbol, '^_ZNK?St') OR regexp_matches(message, 'GLIBCXX_|CXXABI_') THEN 'the C++ library of this system is older than the compiler of the package'
        WHEN symbol <> '' THEN 'the library and what it links to are of different builds'
        WHEN library LIKE 'libcuda.so%' THEN 'the CUDA driver is not visible here (no driver, or a container without GPU access)'
        WHEN library LIKE 'libtorch%' OR library LIKE 'libc10%' THEN 'the package was built for another torch than the installed' || torch
        WHEN library <> '' THEN 'the package was built for another CUDA version than the installed one'
        WHEN regexp_matches(message, 'driver|forward compatibility|unsupported toolchain') THEN 'the driver is older than the CUDA that the packages were built for'
        WHEN message LIKE '%torchvision::%' THEN 'torchvision was built for another torch than the installed' || torch
        WHEN message LIKE '%not compiled with CUDA%' THEN 'the installed torch is the build for CPUs'
        WHEN message LIKE '%mismatches the version%' OR message LIKE '%detected CUDA version%' THEN 'torch was compiled with another CUDA version than the toolkit''s'
        ELSE 'none of the compiled variants of the kernel package could be loaded'
    END AS about
    FROM told
)
SELECT
    run,
    format('the start died {}{}: {}{}{}',
        CASE WHEN symbol <> '' THEN 'on the undefined symbol ' || symbol
             WHEN library <> '' THEN 'because ' || library || ' cannot be opened'
             ELSE 'with "' || rtrim(shortened(message, 160), '.') || '"' END,
        CASE WHEN package <> '' THEN ' (package ' || package || ')' ELSE '' END,
        about,
        CASE WHEN len(suffixes) > 1 THEN '; the CUDA suffixes of the packages differ (' || array_to_string(suffixes, ', ') || ')' ELSE '' END,
        CASE WHEN versions <> '' THEN '. Installed: ' || versions ELSE '' END) AS message,
    nullif(symbol, '') AS symbol, nullif(library, '') AS library, nullif(package, '') AS package,
    nullif(regexp_extract(message, 'detected CUDA version \(([0-9.]+)\)', 1), '') AS toolkit_cuda,
    nullif(regexp_extract(message, 'used to compile PyTorch \(([0-9.]+)\)', 1), '') AS torch_cuda,
    about, versions, type AS exception,
    [cite(source, line)] AS lines
FROM judged
