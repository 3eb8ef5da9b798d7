"""docs/reference.md names what there is: keys, parameters, metrics, encoders, topics, services."""

from pathlib import Path
import re
import sys

import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed: make setup')

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tools'))

from vig_governor.encoders import BUILT_IN  # noqa: E402
from vig_governor.sros_policy import OF_JOBS, OWN_TOPICS, SERVICES  # noqa: E402
from write_reference import filled, REFERENCE, tables  # noqa: E402,I201

TEXT = REFERENCE.read_text(encoding='utf-8')


def test_its_tables_are_what_the_code_says():
    assert filled(TEXT, tables()) == TEXT, 'run: python tools/write_reference.py'


def test_every_encoder_has_a_row():
    part = TEXT.partition('### Encoders')[2].partition('\n## ')[0]
    assert set(re.findall(r'^\| `(\w+)` \|', part, re.MULTILINE)) == set(BUILT_IN)


def test_every_topic_and_service_of_the_node_is_named():
    named = set(re.findall(r'`~/([\w/]+)`', TEXT))
    of_every_node = {name for name in SERVICES if 'parameter' in name or 'description' in name}
    assert named == {*OWN_TOPICS, *OF_JOBS, *SERVICES} - of_every_node
