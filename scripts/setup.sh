#!/usr/bin/env bash
# Installs what building and testing Tenon needs: Debian packages and a Python environment in .venv.
# Relies on apt (as root or through sudo) and pip; it does nothing, in well under a second, when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

missing_packages() {
  local wanted installed
  wanted=$(grep -v '^#' scripts/packages.txt | sort)
  installed=$(dpkg-query -W -f='${db:Status-Status} ${binary:Package}\n' 2>/dev/null |
    sed -n 's/^installed \([^:]*\).*/\1/p' | sort)
  comm -23 <(echo "$wanted") <(echo "$installed")
}

install_packages() {
  local missing sudo=()
  mapfile -t missing < <(missing_packages)
  if [ ${#missing[@]} = 0 ]; then
    return
  fi
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      say "these Debian packages are missing, and this is neither root nor is there sudo: ${missing[*]}"
      exit 1
    fi
    sudo=(sudo)
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q)
  "${apt[@]}" update >&2
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2
}

install_python() {
  local stamp=.venv/tenon-stamp want
  want=$(cat scripts/requirements.txt scripts/setup.sh | sha256sum)
  if [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
    return
  fi
  say "making the Python environment .venv from scripts/requirements.txt"
  python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check -r scripts/requirements.txt >&2
  echo "$want" >"$stamp"
}

install_packages
install_python
say "everything is there"
