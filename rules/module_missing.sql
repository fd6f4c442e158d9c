-- title    = "A module or an interface that the server imports is missing"
-- severity = "critical"
-- family   = "startup"
-- needs    = { problem = ["type"] }
-- why      = "A package is not installed, or it is older or newer than the server expects. The innermost message names the culprit; the packages in the outer frames only passed it on."
-- fix      = [
--   "Install what the message names, in the environment that starts the server: `pip install NAME`, or `apt-get install libsndfile1` and the like for a system library.",
--   "For a name that cannot be imported, install the version that this release of the server pins (`pip install 'sglang[all]==VERSION'`): upgrading one package alone breaks the next pin.",
--   "A supervisor that restarts the server repeats the same line: read the first start only.",
-- ]
-- formula  = "a name that cannot be imported, of which the server dies"
-- unlike   = [
--   "An import that Python or the server survives: the start goes on after it.",
--   "An undefined symbol inside a library that is there (binary_mismatch).",
-- ]
-- causes   = [
--   { name = "absent", cause = "the package is not installed in this environment", test = "python -c \"import NAME\" with the interpreter that starts the server" },
--   { name = "version", cause = "the package is older or newer than the server expects", test = "pip install SERVER==VERSION, so that all pins are met at once" },
-- ]
-- reports  = ["sgl-project/sglang#2166", "sgl-project/sglang#21722", "sgl-project/sglang#6160", "sgl-project/sglang#10891"]
-- explains = ["start_failed", "speculative_assertion", "server_died"]

WITH cause AS (SELECT run, source, line, type, message, at_start FROM problem WHERE cause AND (at_start OR killed)),
named AS (
    SELECT *,
        regexp_extract(message, 'No module named [''"]?([A-Za-z0-9_.-]+)', 1) AS module,
        regexp_extract(message, 'cannot import name [''"]?([A-Za-z0-9_]+)', 1) AS name,
        regexp_extract(message, 'cannot import name .{1,80}? from (?:partially initialized module )?[''"]([A-Za-z0-9_.]+)', 1) AS origin,
        regexp_extract(message, '(?:module |_OpNamespace'' )''([A-Za-z0-9_.]+)''(?: object)? has no attribute ''[A-Za-z0-9_]+''', 1) AS changed,
        regexp_extract(message, 'has no attribute ''([A-Za-z0-9_]+)''', 1) AS attribute,
        coalesce(nullif(regexp_extract(message, '(lib[A-Za-z0-9_+-]+\.so[.0-9]*)', 1), ''), CASE WHEN message ILIKE '%sndfile%' THEN 'libsndfile' END) AS library
    FROM cause
    -- Python's own words while it shuts down; a compiled library that does not fit (binary_mismatch);
    -- a GPU that is too old or too new (kernel_missing_for_gpu)
    WHERE NOT regexp_matches(message, 'sys\.meta_path is None|None in sys\.modules|undefined symbol|(?i)compute capability|\bsm ?_?(?:>=|<=)? ?[0-9]{2}|CUDA arch|GPUs')
        AND (
            (type IN ('ImportError', 'ModuleNotFoundError', 'PackageNotFoundError', 'DistributionNotFound', 'VersionConflict')
                AND NOT regexp_matches(message, 'Could not load any common_ops'))
            OR regexp_matches(message, 'No module named |cannot import name |minimum required version|is required for a normal functioning|No package metadata was found|packages that were not found in your environment|(?i)is not installed|please (?:re)?install|please (?:up|down)grade|you need to install|pip install|sndfile|(?i)requires [a-z0-9_.-]+ ?(?:>=|==|<=|>|~=) ?[0-9]|requires [a-z0-9_-]+ version')
            OR regexp_matches(message, '(?:module |_OpNamespace'' )''[A-Za-z0-9_.]+''(?: object)? has no attribute ')
            OR regexp_matches(message, 'cannot load library |cannot open shared object')
        )
        AND NOT regexp_matches(message, 'lib(?:cuda|cudart|cublas\w*|cudnn\w*|cusparse\w*|cusolver|cufft|curand|nvrtc|nvJitLink|nvshmem\w*|nccl|torch\w*|c10\w*)[-.0-9a-z]*\.so[.0-9]*: cannot open shared object')
),
-- A version complaint often stands one exception further out than the look-up that failed.
complaint AS (
    SELECT run, arg_min(message, line) AS message, min(line) AS line, arg_min(source, line) AS source
    FROM problem WHERE fatal AND NOT follows AND (message LIKE '%minimum required version%' OR message LIKE '%is required for a normal functioning%')
    GROUP BY run
),
repeated AS (
    SELECT run, message, count(*) AS times FROM problem WHERE fatal AND NOT follows GROUP BY run, message
)
SELECT
    n.run,
    format('{} died because {}{}{}', CASE WHEN at_start THEN 'the start' ELSE 'the server' END,
        CASE WHEN c.message IS NOT NULL THEN 'a version does not fit: ' || shortened(c.message, 160)
             WHEN module <> '' THEN 'there is no module named ' || module
             WHEN name <> '' THEN format('{} cannot be imported{}: the installed version is older or newer than the server expects', name, CASE WHEN origin <> '' THEN ' from ' || origin ELSE '' END)
             WHEN changed <> '' THEN format('{} has no {}: the installed version is older or newer than the server expects', changed, attribute)
             WHEN library IS NOT NULL THEN format('the system library {} is not installed', library)
             ELSE 'an import failed: ' || shortened(n.message, 160) END,
        CASE WHEN library = 'libsndfile' OR library LIKE 'libsndfile.%' THEN ' (the Python package soundfile asks for it)' ELSE '' END,
        CASE WHEN times > 1 THEN format(' ({} times: ranks or repeated starts failed alike)', times) ELSE '' END) AS message,
    coalesce(nullif(module, ''), nullif(origin, ''), nullif(changed, ''), library) AS missing,
    nullif(coalesce(nullif(name, ''), attribute), '') AS name,
    regexp_extract(c.message, 'minimum required version ([0-9][0-9a-z.+]*)', 1) AS required,
    times, type AS exception, shortened(n.message, 300) AS text,
    first_few([cite(n.source, n.line), cite(coalesce(c.source, n.source), coalesce(c.line, n.line))]) AS lines
FROM named n
LEFT JOIN complaint c ON c.run = n.run
LEFT JOIN repeated r ON r.run = n.run AND r.message = n.message
