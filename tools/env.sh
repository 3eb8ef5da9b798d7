# shellcheck shell=bash
# Source this to work with the package in this shell: `source tools/env.sh [kilted|jazzy]`.
#
# Puts the environment that `make setup` built on the path and keeps DDS on this host. What is
# already set in your shell wins, so ROS_DOMAIN_ID and the Fast DDS profile can be chosen outside.

_vig_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# A script that sources this without an argument hands on its own ones.
case "${1:-}" in
  jazzy) _vig_prefix="$_vig_root/.vig/ros-jazzy" ;;
  *) _vig_prefix="$_vig_root/.vig/ros-kilted" ;;
esac
if [ ! -f "$_vig_prefix/setup.sh" ]; then
  echo "tools/env.sh: $_vig_prefix is not built yet; run: make setup" >&2
  return 1 2>/dev/null || exit 1
fi
. "$_vig_prefix/setup.sh"
export ROS_AUTOMATIC_DISCOVERY_RANGE="${ROS_AUTOMATIC_DISCOVERY_RANGE:-LOCALHOST}"
# Jazzy's Fast DDS reads only the older of the two names; Kilted's warns where that one is set.
if [ "$ROS_DISTRO" = jazzy ]; then
  export FASTRTPS_DEFAULT_PROFILES_FILE="${FASTRTPS_DEFAULT_PROFILES_FILE:-$_vig_root/config/fastdds_shm.xml}"
else
  export FASTDDS_DEFAULT_PROFILES_FILE="${FASTDDS_DEFAULT_PROFILES_FILE:-$_vig_root/config/fastdds_shm.xml}"
fi
unset _vig_root _vig_prefix
