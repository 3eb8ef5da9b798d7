"""The encoder of references believes nothing: names, types, shapes and sizes are compared."""

from types import SimpleNamespace

from hypothesis import given, settings, strategies as st
import pytest

from vig_governor.backend.base import ReferenceRefused, TensorSpec
from vig_governor.datatypes import element_size, NAMES
from vig_governor.encoders import make_encoder
from vig_governor.encoders.base import EncodeError, InputOptions
from vig_governor.encoders.reference import REFERENCE_TYPE, ReferenceEncoder

IMAGE = TensorSpec('IMAGE', 'UINT8', (-1, -1, 3))
OPTIONS = InputOptions(tensor='IMAGE', encoder='reference')


class RecordingSlot:
    """Keeps what was referred to, or refuses it."""

    def __init__(self, refusal=''):
        self.referred = []
        self._refusal = refusal

    def refer(self, *reference):
        if self._refusal:
            raise ReferenceRefused(self._refusal)
        self.referred.append(reference)


def reference(**fields):
    """Make a message that fits ``IMAGE``, but for ``fields``."""
    return SimpleNamespace(**{
        'region': '/vig_front', 'offset': 64, 'byte_size': 36, 'name': 'IMAGE',
        'datatype': 'UINT8', 'shape': [3, 4, 3], **fields})


def encoder(spec=IMAGE):
    made = make_encoder(OPTIONS)
    made.check(spec, REFERENCE_TYPE)
    return made


def test_what_fits_is_passed_on_untouched():
    slot = RecordingSlot()
    encoder().encode(reference(), slot)
    assert slot.referred == [('IMAGE', (3, 4, 3), 'UINT8', '/vig_front', 64, 36)]


def test_a_batch_of_one_is_added_where_the_model_wants_one():
    slot = RecordingSlot()
    encoder(TensorSpec('IMAGE', 'FP16', (1, 3, 4))).encode(
        reference(datatype='FP16', shape=[3, 4], byte_size=24), slot)
    assert slot.referred[0][1] == (1, 3, 4)


@pytest.mark.parametrize('fields, words', [
    ({'name': 'PICTURE'}, "is for tensor 'PICTURE', but this stream feeds 'IMAGE'"),
    ({'name': ''}, "is for tensor ''"),
    ({'name': 'x' * 10**6}, 'is for tensor'),
    ({'datatype': 'FP32'}, "says 'FP32', but tensor 'IMAGE' of the model is UINT8"),
    ({'datatype': 'y' * 10**6}, 'is UINT8'),
    ({'shape': [3, 4, 4], 'byte_size': 48}, r'wants \[-1, -1, 3\]'),
    ({'shape': []}, r'shape \[\]'),
    ({'shape': [1] * 10**6}, 'has 1000000 axes'),
    ({'shape': [0, 4, 3], 'byte_size': 0}, 'every axis must be 1 or more'),
    ({'shape': [-1, -12, 3]}, 'every axis must be 1 or more'),
    ({'shape': [2**62, 2**62, 3]}, 'takes'),
    ({'byte_size': 35}, 'says 35 bytes, but shape .* takes 36'),
    ({'byte_size': 0}, 'says 0 bytes'),
    ({'byte_size': 2**64 - 1}, 'says 18446744073709551615 bytes')])
def test_what_does_not_fit_is_refused_in_a_short_sentence(fields, words):
    slot = RecordingSlot()
    with pytest.raises(EncodeError, match=words) as caught:
        encoder().encode(reference(**fields), slot)
    assert not slot.referred and len(str(caught.value)) < 300


def test_the_words_of_the_backend_are_passed_on():
    with pytest.raises(EncodeError, match='is not there'):
        encoder().encode(reference(), RecordingSlot('region is not there'))


@pytest.mark.parametrize('spec, message_type, words', [
    (IMAGE, 'sensor_msgs/msg/Image', 'reads vig/msg/TensorReference, not sensor_msgs/msg/Image'),
    (TensorSpec('TEXT', 'BYTES', (1,)), REFERENCE_TYPE, 'no fixed size')])
def test_what_can_never_work_is_refused_at_configure_time(spec, message_type, words):
    with pytest.raises(EncodeError, match=words):
        ReferenceEncoder(OPTIONS).check(spec, message_type)


def test_options_of_images_are_refused():
    with pytest.raises(EncodeError, match='input.size means nothing to encoder reference'):
        ReferenceEncoder(InputOptions(tensor='IMAGE', encoder='reference', size=(3, 4)))


def test_the_encoder_raw_names_the_right_one():
    raw = make_encoder(InputOptions(tensor='IMAGE', encoder='raw'))
    with pytest.raises(EncodeError, match='set input.encoder: reference'):
        raw.check(TensorSpec('IMAGE', 'UINT8', (-1,)), REFERENCE_TYPE)


SIZES = st.one_of(st.integers(-3, 9), st.integers(-2**63, 2**63 - 1))
MESSAGES = st.fixed_dictionaries({
    'region': st.text(max_size=300), 'offset': st.integers(0, 2**64 - 1),
    'byte_size': st.one_of(st.integers(0, 2000), st.integers(0, 2**64 - 1)),
    'name': st.one_of(st.just('IMAGE'), st.text(max_size=200)),
    'datatype': st.one_of(st.sampled_from(NAMES), st.text(max_size=200)),
    'shape': st.lists(SIZES, max_size=40)})
SPECS = st.builds(
    TensorSpec, st.just('IMAGE'), st.sampled_from([name for name in NAMES if name != 'BYTES']),
    st.lists(st.one_of(st.just(-1), st.integers(1, 9)), max_size=5).map(tuple))


@settings(max_examples=300, deadline=None)
@given(SPECS, MESSAGES, st.booleans())
def test_any_message_is_refused_in_a_sentence_or_fits_to_the_byte(spec, fields, is_repaired):
    if is_repaired:
        sizes = [abs(size) % 9 + 1 if want == -1 else want
                 for size, want in zip(fields['shape'] + [1] * 5, spec.shape)]
        total = element_size(spec.datatype)
        for size in sizes:
            total *= size
        fields = {**fields, 'name': 'IMAGE', 'datatype': spec.datatype, 'shape': sizes,
                  'byte_size': total}
    slot = RecordingSlot()
    try:
        encoder(spec).encode(SimpleNamespace(**fields), slot)
    except EncodeError as error:
        assert len(str(error)) < 1500 and not is_repaired
        return
    (_, shape, datatype, region, offset, byte_size), = slot.referred
    assert (region, offset, datatype) == (fields['region'], fields['offset'], spec.datatype)
    assert byte_size == fields['byte_size'] > 0 and min(shape, default=1) > 0
    total = element_size(datatype)
    for size in shape:
        total *= size
    assert total == byte_size
