#!/bin/sh
# Builds the RPM of this checkout: the contents and scripts of the Debian package (deploy/debian/build.sh).
#
#   deploy/rpm/build.sh [FOLDER]     dist by default; prints the path of the package
#
# PYTHON=/usr/bin/python3.11 names the head node's Python if its python3 is older than 3.11.
SLURM_RL_FORMAT=rpm exec "$(dirname "$0")/../debian/build.sh" "$@"
