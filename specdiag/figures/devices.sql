-- title = "Devices over time"
-- tells = "What was scraped of each GPU. A GPU that idles while requests wait is held up by the host; memory that only rises is a leak; little power on a busy GPU says that its kernels wait for memory."
-- place = 70
-- draw = "line"
-- needs = ["metric WHERE time IS NOT NULL"]
-- x = { title = "time", scale = "time" }
-- rows = { busy = { title = "GPU busy, %" }, memory = { title = "memory, GiB" }, power = { title = "power, W" } }
WITH scraped AS (
    SELECT run, source, time, coalesce(device, '0') AS device, unit, value, CASE
        WHEN name IN ('utilization.gpu', 'sm', 'DCGM_FI_DEV_GPU_UTIL', 'nvidia_smi_utilization_gpu_ratio') THEN 'busy'
        WHEN name IN ('memory.used', 'fb', 'DCGM_FI_DEV_FB_USED') THEN 'memory'
        WHEN name IN ('power.draw', 'power.draw.instant', 'pwr', 'DCGM_FI_DEV_POWER_USAGE') THEN 'power' END AS part
    FROM metric WHERE time IS NOT NULL
)
SELECT run, run AS panel, 'GPU ' || device AS series, part, time AS x,
    CASE part WHEN 'memory' THEN value / CASE unit WHEN 'bytes' THEN 1073741824 ELSE 1024 END ELSE value END AS y
FROM scraped WHERE part IS NOT NULL QUALIFY count(*) OVER (PARTITION BY run, device, part) > 1
