#!/bin/sh
# deploy.sh VERSION
set -eu
exec fencepost run deploy/production --wait 30m --metadata "version=$1" -- ./deploy "$1"
