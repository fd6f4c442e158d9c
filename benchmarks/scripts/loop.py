"""Four sums over the decode lines of a server's log: one pattern, a loop over the lines, casts."""

import json
import re
import sys

one = re.compile(
    r"Decode batch[.,] #running-req: (\d+), #token: (\d+), .*"
    r"gen throughput \(token/s\): ([\d.]+), .*#queue-req: (\d+)"
)
decode = running = tokens = queued = 0
speed = 0.0
with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
    for line in log:
        if found := one.search(line):
            decode += 1
            running += int(found[1])
            tokens += int(found[2])
            speed += float(found[3])
            queued += int(found[4])
print(
    json.dumps(
        {"decode": decode, "running": running, "tokens": tokens, "speed": speed, "queued": queued}
    )
)
