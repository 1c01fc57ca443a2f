#!/usr/bin/env bash
# After a job: is the node still what it was? For Epilog= in slurm.conf, which runs it as root on each node of
# the job; as HealthCheckProgram= it does as well.
#
#   BUSBENCH=/opt/busbench        where busbench was installed or built: bin/ or build/ is below
#   PROFILE=/etc/busbench/node.yaml   a quick profile of ONE node, such as ci/profiles/hgx-h100.yaml
#   DRAIN=1                       take a bad node out of service; else the command is only logged
#
# Slurm drains a node whose epilog fails, too, so this ends with 0 whatever the verdict is: only what the
# profile says of this node counts, never that the test itself could not be made.
set -u

BUSBENCH=${BUSBENCH:-/opt/busbench}
PROFILE=${PROFILE:-/etc/busbench/node.yaml}
DRAIN=${DRAIN:-0}
NODE=${SLURMD_NODENAME:-$(hostname -s)}
OUT=$(mktemp -d /tmp/busbench-epilog.XXXXXX)
trap 'rm -rf "$OUT"' EXIT

ACCEPTANCE=$BUSBENCH/bin/acceptance
[ -x "$ACCEPTANCE" ] || ACCEPTANCE=$BUSBENCH/build/acceptance

# Epilogs that take long keep the node from the next job.
timeout 120 "$ACCEPTANCE" run "$PROFILE" --quick --quiet --no-report -o "$OUT/run" >"$OUT/text" 2>&1
STATUS=$?
logger -t busbench -- "acceptance of $NODE: exit status $STATUS"
grep ' | ' "$OUT/text" | logger -t busbench

# 7: below a gate, or wrong data. Everything else says nothing about the node.
if [ $STATUS -eq 7 ]; then
	REASON=$(sed -n 's/^[^|]* | BAD | \([^ |]*\) | .*/busbench:\1/p' "$OUT/text" | head -n 1)
	COMMAND=(scontrol update "nodename=$NODE" state=drain "reason=${REASON:-busbench}")
	logger -t busbench -- "${COMMAND[*]}"
	if [ "$DRAIN" = 1 ]; then
		"${COMMAND[@]}"
	fi
fi
exit 0
