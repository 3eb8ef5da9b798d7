"""Which version of the package is installed."""

from importlib import metadata

NOT_INSTALLED = 'not installed'


def package_version() -> str:
    """Name the installed version, or :data:`NOT_INSTALLED`."""
    try:
        return metadata.version('vig')
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED
