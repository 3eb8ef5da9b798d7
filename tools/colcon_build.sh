#!/usr/bin/env bash
# Build the package the way a robot does, with colcon, and look at it from a clean shell.
# Usage: tools/colcon_build.sh [kilted|jazzy]
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
distribution="${1:-kilted}"
prefix="$root/.vig/ros-$distribution"
install="$root/install"
[ "$distribution" = kilted ] || install="$root/build/install-$distribution"
log="$root/build/colcon-$distribution.log"
mkdir -p "$root/build"

echo "colcon build into ${install#"$root"/} on $distribution"
(
  # shellcheck disable=SC1091
  . "$prefix/setup.sh"
  cd "$root"
  colcon --log-base "$root/build/colcon-$distribution-log" build \
    --base-paths "$root" --packages-select vig \
    --build-base "$root/build/colcon-$distribution" --install-base "$install" \
    --event-handlers console_direct+ \
    --cmake-args -G Ninja -DBUILD_TESTING=OFF \
    "-DPython3_EXECUTABLE=$prefix/bin/python" \
    "-DCMAKE_PROJECT_INCLUDE=$root/tools/ros_from_wheels.cmake"
) >"$log" 2>&1 </dev/null || { tail -40 "$log"; echo "colcon build failed; all of it is in $log"; exit 1; }

test -x "$install/vig/lib/vig/governor" || { echo "lib/vig/governor is missing"; exit 1; }
# Nothing but setup.bash: no variable of this shell, no path of the checkout.
cd /
env -i HOME="${HOME:-/}" PATH=/usr/bin:/bin bash -c '
  set -e
  source "$1/setup.bash"
  python - "$1" <<"PYTHON"
import shutil
import sys

import vig.msg
import vig_core
import vig_governor

from importlib.metadata import distribution
from pathlib import Path

install = Path(sys.argv[1])
for module in (vig, vig_core, vig_governor):
    assert install in Path(module.__file__).parents, module.__file__
names = {entry.name for entry in distribution("vig_governor").entry_points}
assert {"governor", "vig", "image", "array", "raw"} <= names, names
assert install in Path(shutil.which("vig")).parents, shutil.which("vig")
print("a clean shell imports vig, vig_core and vig_governor from the installed package")
PYTHON' _ "$install"
