#!/usr/bin/env bash
# Tests a node after each job. For Epilog= in slurm.conf, which runs it as root on each node of the job, or for
# HealthCheckProgram=.
#
#   BUSBENCH=/opt/busbench        folder with bin/ (installed) or build/
#   PROFILE=/etc/busbench/node.yaml   quick profile of ONE node, such as ci/profiles/hgx-h100.yaml
#   DRAIN=1                       drain a bad node; without it the command is only logged
#
# Slurm also drains a node whose epilog fails, so this always exits 0: only a verdict about this node drains it, never a
# test that could not run.
set -u

BUSBENCH=${BUSBENCH:-/opt/busbench}
PROFILE=${PROFILE:-/etc/busbench/node.yaml}
DRAIN=${DRAIN:-0}
NODE=${SLURMD_NODENAME:-$(hostname -s)}
OUT=$(mktemp -d /tmp/busbench-epilog.XXXXXX)
trap 'rm -rf "$OUT"' EXIT

ACCEPTANCE=$BUSBENCH/bin/acceptance
[ -x "$ACCEPTANCE" ] || ACCEPTANCE=$BUSBENCH/build/acceptance

# A long epilog delays the next job on the node.
timeout 120 "$ACCEPTANCE" run "$PROFILE" --quick --quiet --no-report -o "$OUT/run" >"$OUT/text" 2>&1
STATUS=$?
logger -t busbench -- "acceptance of $NODE: exit status $STATUS"
grep ' | ' "$OUT/text" | logger -t busbench

# 7: below a gate, or wrong data. Other statuses do not concern the node.
if [ $STATUS -eq 7 ]; then
	REASON=$(sed -n 's/^[^|]* | BAD | \([^ |]*\) | .*/busbench:\1/p' "$OUT/text" | head -n 1)
	COMMAND=(scontrol update "nodename=$NODE" state=drain "reason=${REASON:-busbench}")
	logger -t busbench -- "${COMMAND[*]}"
	if [ "$DRAIN" = 1 ]; then
		"${COMMAND[@]}"
	fi
fi
exit 0
