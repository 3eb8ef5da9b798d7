"""
Whether the profiles still speak for what runs.

Looked at for each activation, and again for each model that the server was seen to start anew,
because its weights may be others.

It takes a thread of its own, because a SHA-256 over the weights takes seconds and a lifecycle
transition may not. A contradiction reaches the scheduler as an event and widens the margin; it
never refuses a start. Knows nothing of ROS.
"""

from collections.abc import Callable, Iterable, Mapping
import logging
import threading

from vig_core.events import Event, ProfileDoubted
from vig_core.margin import DOUBT_POINTS

from vig_governor.backend.base import BackendUnavailable
from vig_governor.backend.triton_facts import TritonFacts
from vig_governor.config import Config
from vig_governor.config.schema_model import Manifest
from vig_governor.endpoints import is_loopback
from vig_governor.manifest import compare, contradictions, Verdict
from vig_governor.measure.artifact import read_artifact
from vig_governor.measure.hardware import device_facts
from vig_governor.measure.manifest import make_manifest, repository_path, ServerFacts

_log = logging.getLogger(__name__)


class AuthorityCheck:
    """
    Looks in the background, until ``close``.

    :param ask: what answers about the server.
    :param post: takes the events.
    :ivar doubts: backend model to what its profile contradicts.
    """

    def __init__(self, config: Config, ask: TritonFacts,
                 post: Callable[[Event], object]) -> None:
        self._config = config
        self._ask = ask
        self._post = post
        self._must_end = threading.Event()
        self.doubts: Mapping[str, str] = {}
        self._recorded = {
            variant.backend_model: variant.profile.manifest
            for block in config.file.models.values() for variant in block.variants
            if variant.profile is not None and variant.profile.manifest is not None}
        self._pending = set(self._recorded)
        self._lock = threading.Lock()
        self._asked = threading.Event()
        self._thread = threading.Thread(target=self._run, name='vig-authority', daemon=True)

    def start(self) -> None:
        """Begin; a file without manifests has nothing to look at."""
        if self._recorded:
            self._thread.start()

    def close(self) -> None:
        """Post nothing any more; a file that is being read is read to its end."""
        self._must_end.set()
        self._asked.set()

    def look_again(self, backend_model: str) -> None:
        """Compare the profile of a model once more, on the thread here; never waits."""
        if backend_model in self._recorded:
            with self._lock:
                self._pending.add(backend_model)
            self._asked.set()

    def _run(self) -> None:
        while not self._must_end.is_set():
            self._asked.clear()
            with self._lock:
                pending, self._pending = self._pending, set()
            self._look(sorted(pending))
            self._asked.wait()

    def _look(self, names: Iterable[str]) -> None:
        try:
            server = self._server_facts()
            device = device_facts(is_local=is_loopback(self._config.backend.endpoint))
            for name in names:
                recorded = self._recorded[name]
                artifact = read_artifact(repository_path(
                    self._config.backend.model_repository, self._config.source), name)
                if self._must_end.is_set():
                    return
                self._judge(name, recorded, make_manifest(name, server, device, artifact))
        except Exception:  # a look that fails is no reason to stop serving
            if not self._must_end.is_set():
                _log.exception('the profiles could not be compared with what runs')

    def _server_facts(self) -> ServerFacts:
        try:
            name, version = self._ask.facts()
            return ServerFacts(name, version, dict(self._configs()))
        except BackendUnavailable as error:
            _log.warning('the profiles cannot be compared with the server: %s', error)
            return ServerFacts()

    def _configs(self) -> Iterable[tuple[str, Mapping[str, object]]]:
        for name in self._recorded:
            yield name, self._ask.model_config(name)

    def _judge(self, name: str, recorded: Manifest, found: Manifest) -> None:
        verdicts = compare(recorded, found)
        wrong = contradictions(verdicts)
        if wrong:
            detail = '; '.join(map(str, wrong))
            if self.doubts.get(name) == detail:
                return  # what is doubted already is not something else for being started anew
            self.doubts = {**self.doubts, name: detail}
            _log.warning('the profile of %s was measured on something else (%s): it is planned '
                         'with %d more points of margin until own runs replace it; measure again '
                         'with vig calibrate', name, detail, DOUBT_POINTS)
            self._post(ProfileDoubted(name, detail))
            return
        self.doubts = {other: what for other, what in self.doubts.items() if other != name}
        count = sum(one.verdict is Verdict.VERIFIED for one in verdicts)
        _log.info('the profile of %s: %d fields verified, %d unknown', name, count,
                  len(verdicts) - count)
