"""What surrounds the networks, on arrays made by hand; no network is run."""

import numpy as np
import pytest

from vig_governor.demo.perception.anchors import make_anchors
from vig_governor.demo.perception.boxes import Letterbox, letterbox, overlap, suppress
from vig_governor.demo.perception.detectors import (
    decode_blaze, decode_objects, FACE_FULL, FACE_SHORT, OBJECT_ANCHORS, POSE_DETECTION)
from vig_governor.demo.perception.pose import decode_joints, region_transform

SURE, NEVER = 10.0, -10.0
AS_IT_IS = Letterbox(1.0, (0, 0))


@pytest.mark.parametrize('layout, size, count', [
    (FACE_SHORT.anchors, 128, 16 * 16 * 2 + 8 * 8 * 6),
    (FACE_FULL.anchors, 192, 48 * 48),
    (POSE_DETECTION.anchors, 224, 28 * 28 * 2 + 14 * 14 * 2 + 7 * 7 * 6),
    (OBJECT_ANCHORS, 300, 19 * 19 * 3 + (10 * 10 + 5 * 5 + 3 * 3 + 2 * 2 + 1) * 6)])
def test_there_is_an_anchor_for_every_row_of_the_networks_output(layout, size, count):
    assert make_anchors(layout, size, size).shape == (count, 4)


def test_face_anchors_are_unit_boxes_at_the_centres_of_the_grid_row_by_row():
    anchors = make_anchors(FACE_SHORT.anchors, 128, 128)
    assert anchors[0].tolist() == [1 / 32, 1 / 32, 1, 1]
    assert anchors[1].tolist() == anchors[0].tolist()
    assert anchors[2].tolist() == [3 / 32, 1 / 32, 1, 1]
    assert anchors[512].tolist() == [1 / 16, 1 / 16, 1, 1]


def test_the_first_layer_of_the_object_anchors_has_three_boxes_and_the_last_six():
    anchors = make_anchors(OBJECT_ANCHORS, 300, 300)
    assert anchors[0] == pytest.approx([0.5 / 19, 0.5 / 19, 0.1, 0.1])
    assert anchors[1] == pytest.approx([0.5 / 19, 0.5 / 19, 0.2 * 2 ** 0.5, 0.2 / 2 ** 0.5])
    assert anchors[3][:2] == pytest.approx([1.5 / 19, 0.5 / 19])
    assert anchors[-1] == pytest.approx([0.5, 0.5, 0.95 ** 0.5, 0.95 ** 0.5])


def test_overlap_is_the_shared_area_over_the_joint_area():
    box = np.array([0, 0, 2, 2], np.float32)
    others = np.array([[0, 0, 2, 2], [1, 0, 3, 2], [2, 2, 3, 3], [5, 5, 5, 5]], np.float32)
    assert overlap(box, others) == pytest.approx([1, 1 / 3, 0, 0])


def test_of_overlapping_boxes_the_best_stays_and_a_distant_one_is_kept():
    boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [50, 50, 60, 60]], np.float32)
    kept, scores = suppress(boxes, np.array([0.6, 0.9, 0.7], np.float32), threshold=0.5)
    assert kept.tolist() == [[1, 0, 11, 10], [50, 50, 60, 60]]
    assert scores == pytest.approx([0.9, 0.7])


def test_blended_boxes_are_the_mean_of_their_group_weighted_by_score():
    boxes = np.array([[0, 0, 10, 10], [4, 0, 14, 10]], np.float32)
    kept, scores = suppress(boxes, np.array([0.75, 0.25], np.float32), threshold=0.3,
                            is_blended=True)
    assert kept == pytest.approx(np.array([[1, 0, 11, 10]]))
    assert scores == pytest.approx([0.75])


def test_nothing_to_suppress_gives_nothing():
    kept, scores = suppress(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), threshold=0.5)
    assert kept.shape == (0, 4)
    assert scores.shape == (0,)


def test_a_letterboxed_point_finds_its_way_back_to_the_frame():
    frame = np.full((100, 200, 3), 255, np.uint8)
    canvas, placement = letterbox(frame, 50, 50)
    assert canvas[0].max() == 0
    assert canvas[25].min() == 255
    corner = np.array([0, 12], np.float32)
    assert placement.to_frame(corner) == pytest.approx([0, 0])
    assert placement.to_frame(np.array([50, 37], np.float32)) == pytest.approx([200, 100])


def test_a_face_is_decoded_relative_to_its_anchor_in_pixels_of_the_frame():
    anchors = make_anchors(FACE_SHORT.anchors, 128, 128)
    regressors = np.zeros((len(anchors), 16), np.float32)
    logits = np.full(len(anchors), NEVER, np.float32)
    logits[0] = SURE
    regressors[0, :4] = [16, 8, 20, 10]
    regressors[0, 4:6] = [1, 2]
    found = decode_blaze(regressors, logits, anchors, 128, Letterbox(0.5, (0, 4)))
    assert found.shape == (1, 17)
    # The anchor's centre is (4, 4): box centre (20, 12), half size (10, 5); then the letterbox.
    assert found[0, :4] == pytest.approx([20, 6, 60, 26])
    assert found[0, 4:6] == pytest.approx([10, 4])
    assert found[0, 16] == pytest.approx(1, abs=1e-3)


def test_no_face_gives_no_row_of_the_right_width():
    anchors = make_anchors(FACE_SHORT.anchors, 128, 128)
    found = decode_blaze(np.zeros((len(anchors), 16), np.float32),
                         np.full(len(anchors), NEVER, np.float32), anchors, 128, AS_IT_IS)
    assert found.shape == (0, 17)


def test_an_object_is_decoded_with_variances_and_its_class_counts_from_one():
    anchors = np.array([[0.5, 0.5, 0.2, 0.4]], np.float32)
    regressors = np.array([[10 * 0.25, 10 * 0.5, 0, 5 * np.log(2)]], np.float32)
    logits = np.array([[SURE, NEVER, NEVER, NEVER, SURE]], np.float32)
    found = decode_objects(regressors, logits, anchors, height=100, width=1000)
    # Centre y 0.5 + 0.25 * 0.4, x 0.5 + 0.5 * 0.2; height 0.4, width 0.2 * 2.
    assert found[0, :4] == pytest.approx([400, 40, 800, 80])
    assert found[0, 5] == 4


def test_objects_of_different_classes_do_not_suppress_each_other():
    anchors = np.array([[0.5, 0.5, 0.2, 0.2]] * 3, np.float32)
    logits = np.array([[0, SURE, NEVER], [0, NEVER, SURE], [0, SURE - 1, NEVER]], np.float32)
    found = decode_objects(np.zeros((3, 4), np.float32), logits, anchors, 100, 100)
    assert sorted(found[:, 5]) == [1, 2]


def test_an_upright_person_is_cut_out_without_a_turn_and_the_joints_come_back():
    transform = region_transform(np.array([100, 200], np.float32),
                                 np.array([100, 100], np.float32), 256)
    assert transform @ [100, 200, 1] == pytest.approx([128, 128])
    assert (transform @ [100, 100, 1])[1] < 128
    assert (transform @ [150, 200, 1])[0] > 128
    raw = np.zeros((39, 5), np.float32)
    raw[0] = [*(transform @ [120, 80, 1]), 3, SURE, NEVER]
    joints = decode_joints(raw.reshape(-1), transform)
    assert joints.shape == (33, 5)
    assert joints[0, :3] == pytest.approx([120, 80, 3], abs=1e-3)
    assert joints[0, 3:] == pytest.approx([1, 0], abs=1e-3)


def test_a_lying_person_stands_upright_in_the_cut_out():
    transform = region_transform(np.array([100, 100], np.float32),
                                 np.array([200, 100], np.float32), 256)
    head = transform @ [200, 100, 1]
    assert head[0] == pytest.approx(128)
    assert head[1] < 128
