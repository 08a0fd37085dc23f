#!/bin/sh
# Becomes systemd-nspawn, which boots a copy of this machine's root: boot.sh MACHINE SCRATCH CGROUP...
# MACHINE is the container's name, SCRATCH becomes its /mnt, and CGROUPs are what it lives in.
#
# Runs in a mount namespace of its own (see container.rs), so that the mounts end with the processes.
set -eu
machine=$1
scratch=$2
shift 2
for cgroup; do
    echo 0 >"$cgroup/cgroup.procs"
done
# All that nspawn notes about a machine is below /run; here it goes with the namespace.
mount -t tmpfs -o mode=755,size=1g tmpfs /run
mkdir /run/upper /run/work /run/root
mount -t overlay -o lowerdir=/,upperdir=/run/upper,workdir=/run/work overlay /run/root
# What has been enabled on this machine is not started: /etc/systemd/system begins empty. nspawn's own
# filter of system calls (as of systemd 252) knows nothing of Landlock.
exec systemd-nspawn --quiet --directory=/run/root --machine="$machine" --boot \
    --register=no --keep-unit --private-network --link-journal=no --console=pipe \
    --resolv-conf=off --timezone=off \
    --system-call-filter="landlock_create_ruleset landlock_add_rule landlock_restrict_self" \
    --tmpfs=/etc/systemd/system:mode=755 --bind="$scratch:/mnt" \
    systemd.unit=basic.target systemd.show_status=no
