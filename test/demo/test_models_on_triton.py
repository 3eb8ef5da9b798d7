"""Every demo model on a real server, on a real frame, with content that a person would accept."""

import threading

import numpy as np
import pytest
from triton_fixture import require_triton

from vig_governor.backend.base import Answered
from vig_governor.backend.triton import TritonBackend
from vig_governor.datatypes import numpy_dtype
from vig_governor.demo.assets import AssetStore, DEFAULT_FOLDER
from vig_governor.demo.camera import frames
from vig_governor.demo.repository import available, write_repository
from vig_governor.triton_server import TritonServer

pytestmark = pytest.mark.server

CARPHONE, VTEST = 'videos/carphone_pristine.mp4', 'videos/vtest.avi'
PERSON = 4
EYE_LEFT, EYE_RIGHT, SHOULDER_LEFT, SHOULDER_RIGHT = 2, 5, 11, 12


@pytest.fixture(scope='module')
def store():
    store = AssetStore(DEFAULT_FOLDER)
    if not store.has(CARPHONE):
        pytest.skip('no videos: python -m vig_governor.demo.assets prepare')
    return store


@pytest.fixture(scope='module')
def backend(store, tmp_path_factory):
    require_triton()
    folder = tmp_path_factory.mktemp('repository')
    environment = write_repository(folder, store, available(store))
    with TritonServer(folder, environment=environment) as server:
        backend = TritonBackend(server.grpc_endpoint)
        backend.connect(timeout_s=10)
        backend.open_stream('test', slots=1, transport='auto')
        yield backend
        backend.close()


@pytest.fixture
def ask(backend, store):
    def ask(model, frame):
        if model not in available(store):
            pytest.skip(f'no weights of {model}: '
                        'python -m vig_governor.demo.assets prepare --all')
        slot = backend.acquire('test', 1)
        slot.allocate('IMAGE', frame.shape, 'UINT8')[...] = frame
        outcomes, answered = [], threading.Event()
        backend.infer(1, model, slot,
                      lambda outcome: (outcomes.append(outcome), answered.set()))
        assert answered.wait(20)
        backend.release(1)
        assert isinstance(outcomes[0], Answered), outcomes[0]
        output, = outcomes[0].outputs
        return np.frombuffer(output.data, numpy_dtype(output.datatype)).reshape(output.shape)
    return ask


@pytest.fixture(scope='module')
def driver(store):
    return next(frames(store.path(CARPHONE), (640, 480)))[1]


@pytest.mark.parametrize('model', ['face_short', 'face_full'])
def test_the_drivers_face_is_found_once_with_its_eyes_inside(ask, driver, model):
    box, = ask(model, driver)
    left, top, right, bottom = box[:4]
    assert 200 < left < 260 and 380 < right < 440
    assert 110 < top < 180 and 300 < bottom < 350
    assert box[16] > 0.7
    for x, y in box[4:8].reshape(2, 2):
        assert left < x < right and top < y < (top + bottom) / 2


@pytest.mark.parametrize('model', ['pose_lite', 'pose_full', 'pose_heavy'])
def test_the_drivers_joints_lie_where_a_body_has_them(ask, driver, model):
    joints = ask(model, driver)
    assert joints.shape == (33, 5)
    eyes, shoulders = joints[[EYE_LEFT, EYE_RIGHT]], joints[[SHOULDER_LEFT, SHOULDER_RIGHT]]
    assert joints[[EYE_LEFT, EYE_RIGHT, SHOULDER_LEFT, SHOULDER_RIGHT], 3].min() > 0.9
    assert eyes[:, 1].max() < 260 < 330 < shoulders[:, 1].min()
    assert 200 < eyes[:, 0].min() and eyes[:, 0].max() < 420


def test_the_larger_pose_networks_agree_better_with_the_largest(ask, driver):
    nose = {size: ask(f'pose_{size}', driver)[0, :2] for size in ('lite', 'full', 'heavy')}
    assert np.hypot(*(nose['full'] - nose['heavy'])) < np.hypot(*(nose['lite'] - nose['heavy']))


def test_pedestrians_are_found_as_persons(ask, store):
    if not store.has(VTEST):
        pytest.skip('no vtest.avi: python -m vig_governor.demo.assets prepare --all')
    frame = next(frames(store.path(VTEST), None))[1]
    boxes = ask('objdet', frame)
    people = boxes[boxes[:, 5] == PERSON]
    assert len(people) >= 2
    widths, heights = people[:, 2] - people[:, 0], people[:, 3] - people[:, 1]
    assert (heights > 1.5 * widths).all()


@pytest.mark.parametrize('model, shape', [('segmentation', (256, 256)),
                                          ('segmentation_wide', (144, 256))])
def test_the_mask_covers_the_driver_and_not_the_window(ask, driver, model, shape):
    mask = ask(model, driver)
    assert mask.shape == shape
    height, width = shape
    assert mask[height // 2, width // 2] > 200
    assert mask[height // 8, -width // 16] < 50


@pytest.mark.parametrize('model, columns', [
    ('face_short', 17), ('face_full', 17), ('pose_full', 5), ('objdet', 6)])
def test_an_empty_scene_gives_no_rows_and_no_error(ask, model, columns):
    assert ask(model, np.zeros((480, 640, 3), np.uint8)).shape == (0, columns)
