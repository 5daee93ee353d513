# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shell scripts for the nodes of a run of nccl-tests, with their variables in the environment."""

#: Prints facts, each as NAME=VALUE. GIVEN: path of the program, looked for if empty.
PROBE = r"""
for program in "$GIVEN" all_reduce_perf all_reduce_perf_mpi /opt/nccl-tests/build/all_reduce_perf \
    /opt/nccl_tests/build/all_reduce_perf /usr/local/nccl-tests/build/all_reduce_perf \
    /opt/rccl-tests/build/all_reduce_perf /usr/local/rccl-tests/build/all_reduce_perf; do
  found=$(command -v "$program") && break
  test -n "$GIVEN" && break
done
echo "hostname=$(uname -n)"
echo "kernel=$(uname -r)"
echo "driver=$(cat /sys/module/nvidia/version 2>&- || cat /sys/module/amdgpu/version 2>&-)"
echo "program=$found"
usage=$("${found:-false}" -h 2>&1)
for option in --output_file --per_iter_timing; do
  case $usage in *"$option"*) options="$options $option" ;; esac
done
echo "options=$options"
echo "declared="$(sha256sum /etc/mlnode/declared.d/*.json 2>&-)
if used=$(nvidia-smi --query-compute-apps=pid --format=csv,noheader 2>&-); then
  set -- $used && echo "processes=$#"
elif test -d /sys/class/kfd/kfd/proc; then
  # Each process with the compute driver open has a file with its bytes on each GPU.
  set -- /sys/class/kfd/kfd/proc/*/vram_*
  if test ! -e "$1"; then
    echo processes=0
  elif all=$(grep -H . "$@" 2>&-); then
    set -- $(echo "$all" | grep -v ':0$' | sed 's|.*/proc/||; s|/.*||' | sort -u) && echo "processes=$#"
  fi
fi
exit 0
"""

#: Folder of a run, on each of its nodes. Another user may have made one: see MAKE_FOLDER.
FOLDER = "/tmp/mlnode-nccl"  # noqa: S108  # MAKE_FOLDER refuses that of another user

#: Another user may have made a folder of this name in /tmp.
MAKE_FOLDER = """
mkdir -m 700 -- "$FOLDER" || { test -d "$FOLDER" && test ! -L "$FOLDER" && test -O "$FOLDER"; }
"""

#: Prints the log of NCCL of node NODE in short, and after the line MARK the file JSON in base64. Removes
#: both. The first rank writes the JSON, on its node. If /tmp is one for all nodes, the first has it.
COLLECT = r"""
set -- "$FOLDER/nccl.$NODE".*.log
awk '
  function say(line) {
    sub(/^.*NCCL [A-Z]+ /, "", line)
    if (!(line in said) && ++lines <= 500) said[line] = 1
  }
  match($0, /via NET\/[^\/]+\/[0-9]+(\([0-9]+\))?(\/GDRDMA)?/) { ++count[substr($0, RSTART, RLENGTH)]; next }
  match($0, /Using network .+/) { ++count[substr($0, RSTART, RLENGTH)]; next }
  match($0, /NET\/[^:]+: Using [[][^;]*/) { ++count[substr($0, RSTART, RLENGTH)]; next }
  match($0, /via COLLNET\/[^\/]+\/[0-9]+/) { ++count[substr($0, RSTART, RLENGTH)]; next }
  match($0, /via [A-Za-z0-9 ]+(\/MNNVL)?/) { ++count[substr($0, RSTART, RLENGTH)] }
  match($0, /Detected mixed local Net device counts.*/) { mixed = substr($0, RSTART) }
  / Bytes -> [AK]/ { line = $0; sub(/ time [0-9.]+ *$/, "", line); say(line); next }
  /NCCL_ALGO set by / { say($0) }
  /NCCL_COLLNET_ENABLE set by / { say($0) }
  /Init timings/ { say($0) }
  /NVLS multicast support/ { say($0) }
  /Failed to bind NVLink SHARP/ { say($0) }
  /SHARP coll init error/ { say($0) }
  /SHARP group create/ { say($0) }
  /sharp_coll_caps_query failed/ { say($0) }
  /SHARP: / { say($0) }
  /CollNet node threshold/ { say($0) }
  /CollNet currently only/ { say($0) }
  /Cannot initialize CollNet/ { say($0) }
  /mixed local CollNet/ { say($0) }
  /ncclCollNetPlugin/ { say($0) }
  /Loaded coll/ { say($0) }
  /NET\/Plugin ?: ?[dCP]/ { say($0) }
  END {
    for (one in count) print count[one], one
    if (mixed) print mixed
    for (one in said) print one
  }
' "$@"
echo "$MARK"
base64 -w 0 "$JSON"
rm -f -- "$JSON" "$@"
rmdir -- "$FOLDER"
exit 0
"""
