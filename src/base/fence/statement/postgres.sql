SELECT reentry_fence($1, $2)
