#!/usr/bin/env bash
# One node of the run: first the facts of the node, then its part of the tool. srun starts this
# once on every node, with the host name of the first of them in RENDEZVOUS.
set -euo pipefail

run={{ folder }}
python={{ python }}
number=${SLURM_ARRAY_TASK_ID:-0}
task=$run/task_$number
here=$task/node_$SLURM_NODEID
case $number in
{% for arguments in tasks %}
  {{ loop.index0 }}) arguments=({{ arguments }}) ;;
{% endfor %}
  *) echo "this run has no task $number" >&2; exit 2 ;;
esac
mkdir "$here" || { echo "this run was started before; make a new one" >&2; exit 2; }
[ "$SLURM_NODEID" -ne 0 ] || echo "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" > "$task/job"

# A signal is for the tool, which then writes what it has; this script stays to note the end.
trap 'touch "$here/signal"' TERM
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
{% if keeps %}
# Facts and tool get these variables, and no others.
for name in $(compgen -e); do
  case $name in
    {{ keeps }}) ;;
    RENDEZVOUS) export -n RENDEZVOUS ;;
    *) unset -v "$name" ;;
  esac
done
{% endif %}
export {{ adds | join(" ") }} HOME="$work" TMPDIR="$work"
env -0 > "$here/environment"
"$python" "$run/env_report.py" --json "$here/facts.json" > "$here/facts.log" 2>&1 || true

{% if ranks %}
is_host=$([ "$SLURM_NODEID" -eq 0 ] && echo true || echo false)
start=("$python" -m torch.distributed.run
  --nnodes "$SLURM_JOB_NUM_NODES" --nproc-per-node {{ ranks }}
  --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" --rdzv-conf "is_host=$is_host"
  --rdzv-endpoint "$RENDEZVOUS:$((10000 + SLURM_JOB_ID % 20000))")
{% else %}
start=("$python")
{% endif %}
[ ! -e "$here/signal" ] || exit 143
status=0
begin=$SECONDS
# head keeps the log within its limit, and writes what it reads at once, for a node may die. It
# outlives the signal: the tool still has things to say.
timeout --foreground --kill-after={{ grace }} {{ seconds }} \
  "${start[@]}" "$run"/{{ script }} "${arguments[@]}" --json "$task/results.json" 2>&1 |
  (trap '' TERM; exec stdbuf -o0 head -c {{ log_bytes }}) > "$here/run.log" || status=${PIPESTATUS[0]}
echo "$status $((SECONDS - begin))" > "$here/ended.part"
mv "$here/ended.part" "$here/ended"

# The first failure ends the step on all nodes. The others leave the first node, which writes the
# results, some time to do so.
if [ "$status" -ne 0 ] && [ "$SLURM_NODEID" -ne 0 ]; then
  for _ in {1..{{ grace }}}; do
    [ ! -e "$task/node_0/ended" ] || break
    sleep 1
  done
fi
exit "$status"
