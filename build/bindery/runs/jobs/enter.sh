#!/usr/bin/env bash
# Enter the container with the drivers of whichever accelerators this node has.
set -euo pipefail

options=()
[ -e /dev/nvidiactl ] && options+=(--nv)
[ -e /dev/kfd ] && options+=(--rocm)
exec apptainer exec "${options[@]}" --bind {{ folder }} {{ image }} bash {{ folder }}/node.sh
