#!/bin/sh
# A nightly backup that one machine makes, however many have this line in their crontab:
#
#     REDIS_URL=redis://redis.internal
#     30 2 * * * /opt/backup/nightly_backup.sh /var/lib/shop /mnt/backup
#
# All of them wait for the lock, and the one that enters looks first whether the backup of this night is done. So a machine
# that dies at work is replaced by the next one. The others end without an output, for which cron would send a mail.

set -eu

source=$1
target=$2
# The date when cron started the script, and not when it got the lock. A third argument is the date for a run by hand.
night=${3:-$(date -u +%Y%m%d)}

key=backup:$source
if [ "${REENTRY_KEY:-}" != "$key" ]; then
    # Once more from the beginning, under the lock. A command around this one may have another lock.
    # It gives up before the next night.
    exec reentry run --key "$key" --quiet --timeout 20h -- "$0" "$source" "$target" "$night"
fi

last=$(cat "$target/night" 2>/dev/null || echo 0)
if [ "$last" -ge "$night" ]; then
    exit 0
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
echo "$night" >"$target/night"
