"""
Install the Python packages with pip.

What pip and colcon share, the requirements and the entry points, stands in setup.cfg; the version
stands in package.xml. The interfaces (module ``vig``) are built by CMake alone.
"""

from pathlib import Path
from xml.etree import ElementTree

from setuptools import find_packages, setup

PACKAGE = ElementTree.parse(Path(__file__).resolve().parent / 'package.xml').getroot()

setup(
    name='vig_governor',
    version=PACKAGE.findtext('version'),
    description=' '.join(PACKAGE.findtext('description', '').split()),
    license=PACKAGE.findtext('license'),
    packages=find_packages(include=['vig_core*', 'vig_governor*']),
    package_data={'vig_core': ['py.typed'], 'vig_governor': ['pages/*.html']},
    python_requires='>=3.10',
)
