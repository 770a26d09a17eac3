#!/bin/sh
# transfer.sh FROM TO AMOUNT
set -eu
exec fencepost run "accounts/$1" --also "accounts/$2" --wait 1m -- ./transfer "$@"
