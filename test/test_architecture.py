"""The import rule and the sizes of architecture.md, executed on the source itself."""

import ast
from pathlib import Path
import sys

import pytest

ROOT = Path(__file__).resolve().parent.parent

CORE_LAYERS = ('units', 'values', 'errors', 'contract', 'cooperative', 'model', 'request',
               'events', 'why', 'why_waiting', 'actions')
CORE_TOP = 'scheduler'
CORE_MAY_IMPORT = frozenset({
    'bisect', 'collections', 'dataclasses', 'enum', 'functools', 'heapq', 'itertools', 'math',
    'operator', 'types', 'typing'})
SIM_MAY_IMPORT = CORE_MAY_IMPORT | {'hashlib'}
SIM_MAY_DRAW = frozenset({'vig_core.sim.workload'})
"""The one place that draws random numbers, from a seeded generator."""

ROS = frozenset({
    'rclpy', 'vig', 'std_msgs', 'std_srvs', 'sensor_msgs', 'diagnostic_msgs', 'geometry_msgs',
    'builtin_interfaces', 'lifecycle_msgs', 'rcl_interfaces', 'rosidl_runtime_py', 'launch',
    'launch_ros', 'rosbag2_py', 'rosgraph_msgs'})
WITHOUT_ROS = ('config', 'actor', 'dispatcher', 'recorder', 'recorded', 'replay', 'trace_show',
               'decisions', 'trace_file', 'trace_values', 'checkpoint', 'history',
               'timeline', 'report_page', 'metrics', 'measure', 'backend', 'doctor', 'authority')
WITH_ROS = frozenset({
    'node', 'transitions', 'parameters', 'qos', 'messages', 'encoders', 'diagnostics',
    'process', 'services', 'topics', 'generate', 'top', 'joining', 'explain_node', 'reports',
    'publishing', 'capture', 'graph_probe', 'demo', 'producer', 'ros_time'})
"""Who may say rclpy or a message type: the node, what it is made of, and the demo's processes."""

MAY_SAY_TRITONCLIENT = frozenset({'vig_governor.backend.triton', 'vig_governor.backend.channel',
                                  'vig_governor.backend.carriers',
                                  'vig_governor.backend.http_calls',
                                  'vig_governor.backend.triton_facts',
                                  'vig_governor.backend.shared_memory',
                                  'vig_governor.backend.streaming',
                                  'vig_governor.backend.wire'})
MAX_LINES = {'vig_core': 340, 'vig_governor': 350}


def module_name(path):
    """Dotted name of a file below the root."""
    parts = path.relative_to(ROOT).with_suffix('').parts
    return '.'.join(parts[:-1] if parts[-1] == '__init__' else parts)


def modules_of(package):
    """All modules of a package, name -> syntax tree."""
    return {module_name(path): ast.parse(path.read_text(), str(path))
            for path in sorted((ROOT / package).rglob('*.py'))}


def is_type_checking(node):
    """Whether an ``if`` guards imports that only a type checker sees."""
    test = node.test
    return (isinstance(test, ast.Name) and test.id == 'TYPE_CHECKING') or (
        isinstance(test, ast.Attribute) and test.attr == 'TYPE_CHECKING')


def statements(tree):
    """All nodes that can run, imports inside of functions included."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and is_type_checking(node):
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)


def imports(name, tree, known):
    """Name everything that a module imports; members that are modules count as modules."""
    found = set()
    for node in statements(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = absolute(name, node, known)
            for alias in node.names:
                member = f'{module}.{alias.name}'
                found.add(member if member in known else module)
    return found


def absolute(name, node, known):
    """Resolve the module of a ``from`` import, relative ones included."""
    if node.level == 0:
        return node.module
    is_package = any(other.startswith(f'{name}.') for other in known)
    base = name.split('.')[:len(name.split('.')) - node.level + is_package]
    return '.'.join(base + ([node.module] if node.module else []))


def top(name):
    """First part of a dotted name."""
    return name.split('.')[0]


CORE = modules_of('vig_core')
SHELL = modules_of('vig_governor')
KNOWN = CORE.keys() | SHELL.keys()
CORE_IMPORTS = {name: imports(name, tree, KNOWN) for name, tree in CORE.items()}
SHELL_IMPORTS = {name: imports(name, tree, KNOWN) for name, tree in SHELL.items()}


def layer(name):
    """Place of a core module from left to right; the mechanisms share one."""
    part = name.split('.')[1] if '.' in name else ''
    if part in CORE_LAYERS:
        return CORE_LAYERS.index(part)
    return len(CORE_LAYERS) + (1 if part == CORE_TOP else 0)


def reach(name, graph):
    """All modules that importing one of ours imports, with the path that leads there."""
    paths, waiting = {name: (name,)}, [name]
    while waiting:
        here = waiting.pop()
        parents = {here.rsplit('.', count)[0] for count in range(1, here.count('.') + 1)}
        for target in sorted((graph.get(here, set()) | parents) - paths.keys()):
            paths[target] = (*paths[here], target)
            if target in graph:
                waiting.append(target)
    return paths


def test_the_core_imports_the_standard_library_and_itself():
    wrong = [f'{name} imports {target}' for name, targets in CORE_IMPORTS.items()
             for target in sorted(targets)
             if top(target) != 'vig_core'
             and top(target) not in (SIM_MAY_IMPORT if '.sim' in name else CORE_MAY_IMPORT)
             and not (top(target) == 'random' and name in SIM_MAY_DRAW)]
    assert not wrong, '\n'.join(wrong)
    assert SIM_MAY_IMPORT <= sys.stdlib_module_names


def test_the_core_imports_leftwards_only():
    wrong = [f'{name} imports {target}, which lies to its right'
             for name, targets in CORE_IMPORTS.items() if '.sim' not in name
             for target in sorted(targets) if top(target) == 'vig_core' and target != 'vig_core'
             and (layer(target) > layer(name)
                  or (layer(target) == layer(name) < len(CORE_LAYERS)) or '.sim' in target)]
    assert not wrong, '\n'.join(wrong)


def test_no_two_mechanisms_of_the_core_import_each_other():
    ours = {name: {target for target in targets if target in CORE and target != 'vig_core'}
            for name, targets in CORE_IMPORTS.items()}
    for name in ours:
        for target in ours[name]:
            assert name not in reach(target, ours) or name == target.rsplit('.', 1)[0], (
                f'{name} and {target} import each other')


def test_the_core_does_no_input_and_output_by_builtins():
    wrong = [f'{name}:{node.lineno} calls {node.func.id}' for name, tree in CORE.items()
             for node in ast.walk(tree)
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
             and node.func.id in ('open', 'print', 'input', 'eval', 'exec', '__import__')]
    assert not wrong, '\n'.join(wrong)


def speaks_of_time(node):
    """Whether an expression contains a name in nanoseconds."""
    return any((isinstance(part, ast.Name) and part.id.endswith('_ns'))
               or (isinstance(part, ast.Attribute) and part.attr.endswith('_ns'))
               or (isinstance(part, ast.arg) and part.arg.endswith('_ns'))
               for part in ast.walk(node))


def test_time_in_the_core_is_never_a_float():
    wrong = []
    for name, tree in CORE.items():
        if name == 'vig_core.units' or '.sim' in name:
            continue
        for node in ast.walk(tree):
            if (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
                    and (speaks_of_time(node.left) or speaks_of_time(node.right))):
                wrong.append(f'{name}:{node.lineno} divides a time into a float')
            hint = getattr(node, 'annotation', None)
            target = node if isinstance(node, ast.arg) else getattr(node, 'target', None)
            if (hint is not None and target is not None and speaks_of_time(target)
                    and 'float' in ast.unparse(hint)):
                wrong.append(f'{name}:{node.lineno} declares a time as a float')
    assert not wrong, '\n'.join(wrong)


@pytest.mark.parametrize('part', WITHOUT_ROS)
def test_works_without_ros(part):
    graph = {**CORE_IMPORTS, **SHELL_IMPORTS}
    wrong = []
    for name in SHELL:
        if name == f'vig_governor.{part}' or name.startswith(f'vig_governor.{part}.'):
            wrong += [' -> '.join(path) for target, path in reach(name, graph).items()
                      if top(target) in ROS]
    assert not wrong, '\n'.join(wrong)


def test_only_the_ros_side_imports_ros():
    wrong = [f'{name} imports {target}' for name, targets in SHELL_IMPORTS.items()
             for target in sorted(targets)
             if top(target) in ROS and name.split('.')[1] not in WITH_ROS]
    assert not wrong, '\n'.join(wrong)


def test_only_the_triton_adapter_says_tritonclient():
    wrong = [f'{name} imports {target}' for name, targets in SHELL_IMPORTS.items()
             for target in sorted(targets)
             if top(target) in ('tritonclient', 'grpc') and name not in MAY_SAY_TRITONCLIENT]
    assert not wrong, '\n'.join(wrong)


def test_launch_files_import_nothing_of_ours():
    allowed = {'launch', 'launch_ros'} | sys.stdlib_module_names
    wrong = [f'{path.name} imports {target}' for path in sorted((ROOT / 'launch').rglob('*.py'))
             for target in sorted(imports(path.name, ast.parse(path.read_text()), set()))
             if top(target) not in allowed]
    assert not wrong, '\n'.join(wrong)


@pytest.mark.parametrize('package, most', MAX_LINES.items())
def test_files_stay_short_enough_to_read(package, most):
    lengths = {path: len(path.read_text().splitlines())
               for path in (ROOT / package).rglob('*.py')}
    wrong = [f'{path.relative_to(ROOT)}: {lines} lines, at most {most}'
             for path, lines in sorted(lengths.items()) if lines > most]
    assert not wrong, '\n'.join(wrong)
