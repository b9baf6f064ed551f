#!/bin/sh
# A nightly backup that runs on one machine, however many have this line in their crontab:
#
#     REDIS_URL=redis://redis.internal
#     30 2 * * * /opt/backup/nightly_backup.sh /var/lib/shop /mnt/backup
#
# Who comes second finds the lock taken, or the backup done, and leaves without an error or a word, for which cron would
# send a mail. The lock is kept for six hours, so that a machine whose clock is late does not begin again after the end of
# the first one.

set -eu

source=$1
target=$2

key=backup:$source
if [ "${REENTRY_KEY:-}" != "$key" ]; then
    # Once more from the beginning, under the lock. A command around this one may have another lock.
    exec reentry run --key "$key" --nonblock --quiet --conflict-exit-code 0 \
        --min-hold 6h -- "$0" "$source" "$target"
fi

# The token is greater than that of every earlier run: an old one, which was suspended for hours and goes on
# now, must not put its archive in place of a newer one.
newest=$(cat "$target/token" 2>/dev/null || echo 0)
if [ "$REENTRY_TOKEN" -lt "$newest" ]; then
    echo "token $REENTRY_TOKEN is older than $newest" >&2
    exit 1
fi

# If the lock is lost, this script and tar get SIGTERM: nothing unfinished has the name of a backup then.
unfinished=$target/unfinished-$REENTRY_TOKEN
trap 'rm -f "$unfinished"' EXIT
trap 'exit 143' TERM
tar -czf "$unfinished" -C "$source" .
echo "$REENTRY_TOKEN" >"$target/token"
mv "$unfinished" "$target/backup.tar.gz"
