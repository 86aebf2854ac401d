#!/bin/sh
# pkg-config-build.sh PREFIX COMPILER SOURCE PROGRAM [MORE...]
set -eu
prefix=$1 compiler=$2 source=$3 program=$4
shift 4
PKG_CONFIG_PATH=$(find "$prefix" -name pkgconfig -type d)
export PKG_CONFIG_PATH
libraries=$(pkg-config --variable=libdir ccljit)
# The flags are several words.
# shellcheck disable=SC2046
"$compiler" -std=c++20 -O1 -Wall -Wextra -Werror $(pkg-config --cflags ccljit) "$source" -o "$program" \
  "$@" $(pkg-config --libs ccljit) -pthread "-Wl,-rpath,$libraries"
