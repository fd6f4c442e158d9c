#!/usr/bin/env bash
# Check what a benchmark left behind, and say what the exit code means:
#
#   python -m sglang.launch_server ... > logs/server.log 2>&1 &
#   python -m sglang.bench_serving ... --output-file logs/bench.jsonl
#   ./after-bench.sh logs reports
#
# Exits as `specdiag check` does, so that the caller can tell a bad run from a bad command.
set -euo pipefail

logs=${1:?usage: after-bench.sh LOGS [REPORTS]}
reports=${2:-reports}
mkdir -p "$reports"

code=0
specdiag check "$logs" \
    --html "$reports/specdiag.html" \
    --output "json=$reports/specdiag.json" \
    --output "markdown=$reports/specdiag.md" || code=$?

case $code in
    0) say="in order" ;;
    1) say="findings, or an assertion that fails: read $reports/specdiag.html" ;;
    2) say="wrong use: a path, an option, specdiag.toml or a rule file, see the error above" ;;
    3) say="undecided: no log could be read, or a required rule lacks data" ;;
    130) say="interrupted" ;;
    *) say="specdiag made a mistake: please report the lines above" ;;
esac
echo "benchmark check ($code): $say" >&2
exit "$code"
