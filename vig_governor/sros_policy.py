"""
``vig policy``: the SROS 2 policy with the least rights that the node needs for one vig.yaml.

Which topics those are stands in the file, so the policy is made from it. ``ros2 security
create_enclave`` and ``create_permission`` turn it into signed permissions.
"""

import argparse
import re
from typing import Any
from xml.etree import ElementTree

from vig_core.errors import VigError

from vig_governor.config import Config, load_config

OF_EVERY_NODE = ('/rosout', '/parameter_events', '/diagnostics')
OWN_TOPICS = ('status', 'transition_event')
OF_JOBS = ('generated', 'generate/status')
SERVICES = (
    'cancel', 'explain', 'generate', 'record', 'change_state', 'get_state', 'get_available_states',
    'get_available_transitions', 'get_transition_graph', 'describe_parameters', 'get_parameters',
    'get_parameter_types', 'list_parameters', 'set_parameters', 'set_parameters_atomically',
    'get_type_description')
_NAME = re.compile(r'[A-Za-z_][A-Za-z0-9_]*')


def policy_of(config: Config, *, namespace: str = '/', node: str = 'governor',
              has_sim_time: bool = False) -> ElementTree.Element:
    """
    Make the policy; remapped topics have to be renamed in it.

    :param namespace: of the node, absolute.
    :param has_sim_time: whether the node may read ``/clock``.
    """
    base = namespace.rstrip('/')
    own = f'{base}/{node}'

    def resolved(topic: str) -> str:
        if topic.startswith('~'):
            return own + topic[1:]
        return topic if topic.startswith('/') else f'{base}/{topic}'

    inputs = [resolved(stream.topic) for stream in config.streams]
    outputs = [resolved(stream.output) if stream.output else f'{topic}/vig'
               for stream, topic in zip(config.streams, inputs)]
    published = [*OF_EVERY_NODE, *(f'{own}/{name}' for name in OWN_TOPICS),
                 *(f'{own}/{name}' for name in OF_JOBS if config.job_streams),
                 *(f'{output}/{kind}' for stream, output in zip(config.streams, outputs)
                   for kind in ('generated' if stream.is_generative else 'result', 'status'))]
    policy = ElementTree.Element('policy', version='0.2.0')
    enclaves = ElementTree.SubElement(policy, 'enclaves')
    enclave = ElementTree.SubElement(enclaves, 'enclave', path=own)
    profiles = ElementTree.SubElement(enclave, 'profiles')
    profile = ElementTree.SubElement(profiles, 'profile', ns=base or '/', node=node)
    _rules(profile, 'topic', {'publish': 'ALLOW'}, published)
    _rules(profile, 'topic', {'subscribe': 'ALLOW'},
           [*(['/clock'] if has_sim_time else []), *dict.fromkeys(inputs)])
    _rules(profile, 'service', {'reply': 'ALLOW'}, [f'{own}/{name}' for name in SERVICES])
    return policy


def text_of(policy: ElementTree.Element) -> str:
    """Show a policy as a file."""
    ElementTree.indent(policy)
    return ('<?xml version="1.0" encoding="UTF-8"?>\n'
            f'{ElementTree.tostring(policy, encoding="unicode")}\n')


def add_parser(subparsers: Any) -> None:
    """Add the parser of ``vig policy``."""
    parser = subparsers.add_parser('policy', help='print the SROS 2 policy of the node')
    parser.add_argument('-c', '--config', required=True, metavar='FILE', help='the vig.yaml')
    parser.add_argument('--namespace', default='/', help='of the node; default /')
    parser.add_argument('--name', default='governor', help='of the node; default governor')
    parser.add_argument('--sim-time', action='store_true', help='also allow it to read /clock')


def run(arguments: argparse.Namespace) -> int:
    """Print the policy of one file."""
    if not arguments.namespace.startswith('/'):
        raise VigError(f'--namespace {arguments.namespace}: a namespace starts with a slash')
    parts = [('--namespace', one) for one in arguments.namespace.split('/') if one]
    for option, part in (*parts, ('--name', arguments.name)):
        if _NAME.fullmatch(part) is None:
            raise VigError(f'{option}: {part!r} is no name of ROS, which has letters, digits and '
                           'underscores and does not begin with a digit')
    config = load_config(arguments.config)
    if not config.streams and not config.job_streams:
        raise VigError(f'{config.source}: has no streams and no model that answers prompts, so '
                       'there is no topic to allow')
    print(text_of(policy_of(config, namespace=arguments.namespace, node=arguments.name,
                            has_sim_time=arguments.sim_time)), end='')
    return 0


def _rules(profile: ElementTree.Element, kind: str, rule: dict[str, str],
           names: list[str]) -> None:
    if names:
        block = ElementTree.SubElement(profile, f'{kind}s', rule)
        for name in names:
            ElementTree.SubElement(block, kind).text = name
