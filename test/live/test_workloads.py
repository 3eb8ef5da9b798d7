"""The load that a live point offers, computed from what a client of the server sees."""

from types import SimpleNamespace

from benchmark.live import workloads
from benchmark.live.__main__ import chosen, order
from benchmark.live.contract import render
from benchmark.live.stage import Arm
import numpy as np
import pytest

from vig_core.errors import VigError
from vig_core.model import RuntimeProfile
from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.config import load_config

SERVER = SimpleNamespace(grpc_endpoint='127.0.0.1:1', http_endpoint='127.0.0.1:2')

ADDED_NS = 3 * NS_PER_MS
TURNAROUND_NS = NS_PER_MS


@pytest.fixture(scope='module')
def points():
    found = workloads.scenarios()
    measured = {model.variants[0].backend_model: RuntimeProfile(
        model.variants[0].profile.p50_ns + ADDED_NS, model.variants[0].profile.p99_ns + ADDED_NS)
        for model in workloads.models_of(found)}
    return {point.label: point for point in workloads.points(
        found, measured, TURNAROUND_NS, duration_ns=10 * NS_PER_S, is_quick=False)}


def test_the_ramp_has_seven_loads_and_every_other_workload_one_point(points):
    assert list(points) == ['ramp-50', 'ramp-75', 'ramp-90', 'ramp-100', 'ramp-110', 'ramp-125',
                            'ramp-150', 'block-103', 'bursts-129', 'four-cameras-150']


def test_the_measured_medians_ask_for_the_load(points):
    for point in points.values():
        seen = workloads.offered(point.scenario)
        assert seen == pytest.approx(point.load_permille / 1000, rel=0.06), point.label


def test_a_frame_asks_for_what_is_left_beside_the_turn_around(points):
    assert points['ramp-100'].laws['ramp_pose'].p50_ns == 4 * NS_PER_MS - TURNAROUND_NS


def test_where_the_runtime_sets_the_load_the_client_sees_the_wanted_one(points):
    law = points['four-cameras-150'].laws['four-cameras_detector']
    profile = points['four-cameras-150'].scenario.system.models['detector'].variants[0].profile
    assert profile.p50_ns - law.p50_ns == TURNAROUND_NS + ADDED_NS


def test_bursts_keep_their_place_in_a_shorter_cell(points):
    scan = points['bursts-129'].streams[1]
    assert scan.arrivals.windows == ((2 * NS_PER_S, 3500 * NS_PER_MS),
                                     (6 * NS_PER_S, 7500 * NS_PER_MS))


def test_the_same_frame_costs_the_same_in_every_arm(points):
    point = points['ramp-110']
    played = [list(point.frames(point.streams[0], 1, NS_PER_S)) for _ in range(2)]
    assert played[0] == played[1] != list(point.frames(point.streams[0], 2, NS_PER_S))


def test_frames_for_calibration_carry_their_cost():
    law = workloads.RuntimeLaw(10 * NS_PER_MS, 12 * NS_PER_MS)
    variant = next(iter(workloads.models_of(workloads.scenarios()))).variants[0]
    frames = workloads.DrawnFrames(law, variant, 3)
    costs = [int(frames[number].reshape(-1)[:8].view(np.int64)[0]) for number in range(3)]
    assert costs == [law.draw_ns(0, 'calibration', number, variant) for number in range(3)]


def test_every_point_becomes_a_configuration_that_the_governor_accepts(points, tmp_path):
    for point in points.values():
        file = tmp_path / 'vig.yaml'
        file.write_text(render(point, SERVER, lead_ns=4_000_000))
        config = load_config(file, require_profiles=True)
        assert [binding.name for binding in config.streams] == [
            stream.name for stream in point.streams]


def test_arms_take_turns_in_who_is_first(points):
    arms = list(Arm)[:4]
    cells = list(order([points['ramp-50'], points['ramp-75']], 3, arms))
    assert [cell.arm for cell in cells[::4]] == [*arms, *arms[:2]]
    assert len(cells) == len({(cell.point.label, cell.arm, cell.repeat) for cell in cells}) == 24


def test_only_the_points_that_are_asked_for_are_played_and_a_wrong_one_is_named(points):
    every = list(points.values())
    assert chosen(every, []) == every
    assert chosen(every, ['ramp-110', 'real models']) == [points['ramp-110']]
    with pytest.raises(VigError, match='--only nix: no such point; there are ramp-50'):
        chosen(every, ['nix'])
